"""
The Node.js client beside its stories: its own tests, the package that npm makes, its types, its
examples and README.
"""

import functools
import glob
import json
import os
import re
import shutil

import programs
from programs import EXAMPLES, JOBS, POOL, TOP, url
import tap
import pytest

import npm_modules
from conftest import start  # noqa: F401: a fixture

FOLDER = os.path.join(TOP, "clients", "node")
run = functools.partial(programs.run, folder=FOLDER)
TSC_OPTIONS = (
    "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noUnusedLocals", "--target", "es2022",
    "--module", "nodenext", "--lib", "es2022,esnext.disposable", "--types", "node",
)  # fmt: skip
STOP = """
const stop = async () => {
  while ((await client.ready('mail')).size) await new Promise((wake) => setTimeout(wake, 20));
  worker.stop();
};
stop();
"""
pytestmark = pytest.mark.skipif(
    not shutil.which("node") or not shutil.which("npm"), reason="node or npm is not installed"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with nothing but the package, which npm made and installed there without a network."""
    base = tmp_path_factory.mktemp("npm")
    program = base / "program"
    program.mkdir()
    env = {"HOME": str(base), "npm_config_cache": str(base / "cache"), "npm_config_registry": "http://127.0.0.1:1/"}
    listed = json.loads(run("npm", "pack", "--json", "--pack-destination", str(base), **env))
    run("npm", "install", "--offline", "--no-audit", "--no-fund", str(base / listed[0]["filename"]), folder=program, **env)
    return program, sorted(one["path"] for one in listed[0]["files"])


def test_own_tests(start):
    tests = sorted(glob.glob(os.path.join(FOLDER, "test", "*.test.*")))
    assert tests
    daemon = start(*JOBS, *POOL)
    run("node", "--expose-gc", "--test", *tests, COUNTER_URL=url(daemon))


def test_package_has_the_library_and_needs_nothing(installed):
    program, files = installed
    library = [os.path.relpath(path, FOLDER) for path in glob.glob(os.path.join(FOLDER, "lib", "*.js"))]
    assert files == sorted(["README.md", "index.d.ts", "index.js", "package.json", *library])
    modules = [name for name in os.listdir(program / "node_modules") if not name.startswith(".")]
    assert modules == ["counterd"]


def test_version_is_that_of_the_server():
    assert json.loads(programs.read("clients", "node", "package.json"))["version"] == programs.version()
    assert "counterd-%s.tgz" % programs.version() in programs.read("clients", "node", "README.md")


def test_types_declare_what_there_is():
    code = (
        "import * as all from 'counterd';"
        "console.log(JSON.stringify(Object.keys(all).sort()));"
        "const calls = Object.getOwnPropertyNames(all.Client.prototype).filter((name) => !name.startsWith('_'));"
        "console.log(JSON.stringify(calls.sort()));"
    )
    exported, calls = map(json.loads, run("node", "--input-type=module", "-e", code).splitlines())
    types = programs.read("clients", "node", "index.d.ts")
    assert exported == sorted(re.findall(r"^export (?:abstract )?(?:class|function|const) (\w+)", types, re.M))
    body = re.search(r"^export class Client \{\n(.*?)^\}", types, re.M | re.S).group(1)
    assert calls == sorted(set(re.findall(r"^  (\w+)[<(]", body, re.M)))


def test_a_program_in_typescript(start, installed):
    program, _ = installed
    try:
        modules = npm_modules.installed()
    except npm_modules.Missing as e:
        pytest.skip(str(e))
    for name in ("@types", "undici-types"):
        os.symlink(os.path.join(modules, name), program / "node_modules" / name)
    shutil.copy(os.path.join(TOP, "t", "clients", "typed.ts"), program / "typed.mts")
    tsc = os.path.join(modules, ".bin", "tsc")
    run(tsc, *TSC_OPTIONS, "typed.mts", folder=program)
    daemon = start(*JOBS)
    programs.add_gpu(daemon)
    assert run("node", "typed.mjs", folder=program, COUNTER_URL=url(daemon)).splitlines() == [
        "2",
        "Busy,Busy,a server,true",
        "/dev/nvidia0 true a100",
        "ready one; ready x; false true; 2; false; one 2 false; x 1 false; x 2 false; 0; 1; 1; true",
        "true true",
        "b:7531,a:7531,c:7531",
        "true",
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_the_readme_says(start, name):
    daemon = start(*JOBS, *POOL)
    path = "examples/%s.mjs" % name
    assert run("node", path, COUNTER_URL=url(daemon)) == programs.printed("node", path)


def test_readme_runs_where_the_package_is_installed(start, installed):
    program, _ = installed
    daemon = start(*JOBS)
    programs.add_gpu(daemon)
    code = "\n".join(programs.blocks("node", "js"))
    address = re.search(r"new Client\('(counter://[^']*)'", code).group(1)
    run("node", "--input-type=module", "-e", "import { Client } from 'counterd'; new Client('%s')" % address)
    code = code.replace("'%s'" % address, "null")
    code = code.replace("console.log('cut off:'", STOP + "console.log('cut off:'")
    (program / "readme.mjs").write_text(code + "\nawait client.close();\n")
    said = run("node", "readme.mjs", folder=program, COUNTER_URL=url(daemon))
    for words in ("at most 2 are here", "do the work", "3 of 10", "gpu0 /dev/nvidia0", "put now", "cut off: 0"):
        assert words in said
    assert "Dear customer 1 false" in said


if __name__ == "__main__":
    tap.main(__file__)
