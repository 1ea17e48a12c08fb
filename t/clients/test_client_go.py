"""
The Go client beside its stories: its own tests with the race detector, a program that uses
its module without a network, its examples and README.
"""

import functools
import glob
import os
import re
import shutil

import programs
from programs import EXAMPLES, JOBS, POOL, TOP, url
import tap
import pytest

import stories
from conftest import start  # noqa: F401: a fixture

FOLDER = os.path.join(TOP, "clients", "go")
pytestmark = pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
run = functools.partial(programs.run, folder=FOLDER, **stories.go_env())
MODULE = "example.org/counterd/clients/go"
PROGRAM = """package main

import (
	"context"
	"fmt"
	"log"
	"time"

	counterd "example.org/counterd/clients/go"
)

func readme(ctx context.Context) error {
	%s
	go func() {
		for jobs, _ := client.Ready(ctx, "mail", counterd.ReadyOptions{}); len(jobs) > 0; {
			time.Sleep(20 * time.Millisecond)
			jobs, _ = client.Ready(ctx, "mail", counterd.ReadyOptions{})
		}
		worker.Stop()
	}()
	%s
	return nil
}

func main() {
	if err := readme(context.Background()); err != nil {
		log.Fatal(err)
	}
}
"""


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The folder of the examples' programs."""
    folder = tmp_path_factory.mktemp("examples")
    run("go", "build", "-o", str(folder), "./...", folder=os.path.join(FOLDER, "examples"))
    return folder


def test_own_tests_have_no_races(start):
    daemon = start(*JOBS, *POOL)
    said = run("go", "test", "-race", "-count=1", "-timeout=180s", ".", COUNTER_URL=url(daemon))
    assert said.startswith("ok"), said


def test_needs_the_standard_library_alone():
    assert programs.read("clients", "go", "go.mod") == "module %s\n\ngo 1.19\n" % MODULE
    assert not os.path.exists(os.path.join(FOLDER, "go.sum"))
    needed = run("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").split()
    assert needed == [MODULE]


def test_compiles_for_other_systems(tmp_path):
    """As for Linux, but with the file for others, so that the standard library is not compiled for them."""
    for path in glob.glob(os.path.join(FOLDER, "*.go")) + [os.path.join(FOLDER, "go.mod")]:
        if not path.endswith(("_linux.go", "_test.go")):
            with open(path, encoding="utf-8") as f:
                (tmp_path / os.path.basename(path)).write_text(f.read().replace("//go:build !linux\n", ""))
    run("go", "vet", ".", folder=str(tmp_path))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_the_readme_says(start, examples, name):
    daemon = start(*JOBS, *POOL)
    wanted = programs.printed("go", "examples/" + name, "examples/%s/main.go" % name)
    assert run(str(examples / name), COUNTER_URL=url(daemon)) == wanted


def test_readme_runs_in_a_module_that_replaces_ours(start, tmp_path):
    daemon = start(*JOBS)
    programs.add_gpu(daemon)
    first, *blocks, last = programs.blocks("go", "go")
    address = re.search(r'Open\("(counter://.*?)"', first).group(1)
    first = first.replace('"%s"' % address, '""')
    worker, _, wait = last.partition("if err := worker.Run")
    (tmp_path / "main.go").write_text(PROGRAM % ("".join([first, *blocks, worker]), "if err := worker.Run" + wait))
    lines = re.search(r"((?:    (?:require|replace) .*\n\n?)+)", programs.read("clients", "go", "README.md")).group(1).replace("    ", "")
    lines = re.sub(r"=> .*", "=> " + FOLDER, lines)
    (tmp_path / "go.mod").write_text("module example.org/program\n\ngo 1.19\n\n" + lines)
    run("go", "vet", ".", folder=str(tmp_path), HOME="/nonexistent")
    run("go", "build", "-o", "program", ".", folder=str(tmp_path), HOME="/nonexistent")
    said = run(str(tmp_path / "program"), COUNTER_URL=url(daemon))
    for words in ("at most 2 are here", "3 of 10", "gpu0 /dev/nvidia0", "put before: false"):
        assert words in said
    assert "one 1\n" in said and "two 1\n" in said


if __name__ == "__main__":
    tap.main(__file__)
