"""
libcounter as programs get it: installed, found by pkg-config, linked shared and static, from C and C++; what it
exports; its manual, README and examples. Units are in t/unit/lib.
"""

import os
import re
import shutil

import programs
from programs import JOBS, POOL, TOP, read, run, url
import tap
import pytest

from conftest import start  # noqa: F401: a fixture

BUILD = os.environ.get("TOP_BUILDDIR") or os.path.join(TOP, "build")
LIB = os.path.join(TOP, "lib")
DAEMON = JOBS + POOL
STRICT = ("-O1", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-D_GNU_SOURCE")
PARAMETERS = {
    "binary", "connect_timeout", "down_seconds", "idle", "idle_seconds", "io_timeout", "jobs", "max_body", "text", "tls",
    "tls_ca", "tls_cert", "tls_key", "tls_name",
}  # fmt: skip
EXAMPLES = {
    "lock": "rendering, lost: no\nanother one renders: TIMEOUT\nreleased: OK\n",
    "units": "3 calls, 3 in use\n8 more are too many\n0 in use\n",
    "member": "working on /dev/nvidia0\nworking on /dev/nvidia0\ngave it back\n",
    "put": "the same job: yes\n3 more\nready: 3\ndelayed: 1\n",
    "worker": "sent letter 1, try 1\nsent letter 2, try 1\nsent no address, try 2\n",
    "poll": "10 locks are held\n",
    "epoll": "OK\nOK\nOK\nOK\n",
    "libevent": "locked: OK\nreleased: OK\n",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder in which the library is installed below /usr/local."""
    root = str(tmp_path_factory.mktemp("root"))
    if "\ninstall-libcounter-links:" not in read(BUILD, "Makefile"):
        pytest.skip("configured with --disable-client")
    make = ("make", "-s", "-C", BUILD, "install-libcounter", "prefix=/usr/local", "DESTDIR=" + root)
    run(*make, MAKEFLAGS="", MFLAGS="")
    return root


def flags(installed, *options, packages=("libcounter",)):
    """What pkg-config says, for the library in this folder."""
    folder = os.path.join(installed, "usr/local/lib/pkgconfig")
    prefix = "--define-variable=prefix=/usr/local"
    said = run("pkg-config", prefix, *options, "libcounter", PKG_CONFIG_PATH=folder, PKG_CONFIG_SYSROOT_DIR=installed)
    others = [name for name in packages if name != "libcounter"]
    return said.split() + (run("pkg-config", *options, *others).split() if others else [])


def compiled(installed, source, to, *more, static=False, packages=("libcounter",)):
    cc = shutil.which("cc") or "gcc"
    options = ("--static", "--cflags", "--libs") if static else ("--cflags", "--libs")
    run(cc, *STRICT, *more, source, "-o", to, *flags(installed, *options, packages=packages))
    return to


@pytest.fixture
def shown(start, installed, tmp_path):
    """A function that compiles a source, or the text of one, and returns what the program prints beside a daemon."""

    def compile_and_run(source, *more, **how):
        if "\n" in source:
            (tmp_path / "text.c").write_text(source)
            source = str(tmp_path / "text.c")
        program = compiled(installed, source, str(tmp_path / "program"), *more, **how)
        folder = os.path.join(installed, "usr/local/lib")
        return run(program, COUNTER_URL=url(start(*DAEMON)), LD_LIBRARY_PATH=folder)

    return compile_and_run


def declared():
    """The functions of counter.h that are no inline ones."""
    text = run("cc", "-E", "-P", os.path.join(LIB, "counter.h"))
    text = text[text.index("typedef struct counter_client") :]
    inline = set(re.findall(r"static inline [^;{]*?\b(counter_\w+)\(", text))
    return set(re.findall(r"\b(counter_\w+)\(", text)) - inline


def defined(said):
    """The names that nm lists as defined."""
    return {line.split()[-1] for line in said.splitlines() if re.search(r" [A-TV-Z] ", line)}


# --- the library ---------------------------------------------------------------------------------


def test_exports_are_the_functions_of_the_header(installed):
    node = re.search(r"LIBCOUNTER_1\.0 \{\nglobal:\n(.*?)local:\n    \*;\n\};", read("lib", "libcounter.map"), re.S)
    assert set(re.findall(r"^    (counter_\w+);$", node.group(1), re.M)) == declared()
    library = os.path.join(installed, "usr/local/lib/libcounter.so")
    names = defined(run("nm", "-D", "--defined-only", library))
    assert names == {name + "@@LIBCOUNTER_1.0" for name in declared()} | {"LIBCOUNTER_1.0"}
    assert defined(run("nm", "--defined-only", os.path.join(installed, "usr/local/lib/libcounter.a"))) == declared()


def test_shared_library_needs_libc_and_openssl(installed):
    said = run("readelf", "-d", os.path.join(installed, "usr/local/lib/libcounter.so.1"))
    assert re.findall(r"\(SONAME\).*\[(.*)\]", said) == ["libcounter.so.1"]
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) <= {"libssl.so.3", "libcrypto.so.3", "libc.so.6"}
    assert "TEXTREL" not in said


def test_archive_is_one_object_without_variables(installed):
    """So clients of several threads share nothing."""
    archive = os.path.join(installed, "usr/local/lib/libcounter.a")
    assert len(run("ar", "t", archive).split()) == 1
    sizes = dict(re.findall(r"^\.(\S+) +(\d+)", run("size", "-A", archive), re.M))
    assert sizes["data"] == "0" and int(sizes["bss"]) <= 8, "text.h has one, to which nothing is written"
    assert not {"tdata", "tbss"} & set(sizes)


def test_version_is_that_of_the_server(installed):
    assert flags(installed, "--modversion") == [programs.version()]


def test_uninstall_removes_all(installed, tmp_path):
    shutil.copytree(os.path.join(installed, "usr"), tmp_path / "usr", symlinks=True)
    targets = ("includeHEADERS", "nodist_libcounterDATA", "nodist_pkgconfigDATA", "man", "local")
    targets = ["uninstall-" + target for target in targets]
    make = ("make", "-s", "-C", BUILD, *targets, "prefix=/usr/local", "DESTDIR=%s" % tmp_path)
    run(*make, MAKEFLAGS="", MFLAGS="")
    left = [os.path.join(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    assert not left


def test_header_is_complete_in_c_and_cpp(installed, tmp_path):
    source = tmp_path / "header.c"
    source.write_text("#include <counter.h>\nint main(void) { return counter_is_failed(COUNTER_BUSY); }\n")
    for standard in ("c99", "c11", "gnu17"):
        compiled(installed, str(source), str(tmp_path / "header"), "-std=" + standard)
    cpp = shutil.which("g++") or shutil.which("clang++")
    if not cpp:
        pytest.skip("g++ is not installed")
    macros = re.findall(r"^#define COUNTER_(\w+_ARGS|ERROR|MESSAGE) ", read("lib", "counter.h"), re.M)
    macros = [name.lower() for name in macros]
    assert len(macros) == 8
    source = tmp_path / "header.cpp"
    source.write_text(
        "#include <counter.h>\n#include <cstdio>\nint main() {\n"
        '    counter_client *client = counter_open("counter://h", nullptr);\n'
        '    counter_op *op = counter_usage(client, counter_str("k"));\n'
        "    std::puts(counter_status_name(COUNTER_BUSY));\n"
        "    counter_op_free(op);\n    counter_close(client);\n}\n"
        + "".join("counter_%s x%d = COUNTER_%s;\n" % (name, i, name.upper()) for i, name in enumerate(macros))
    )
    strict = [flag for flag in STRICT if flag != "-Wconversion"]
    for standard in ("c++11", "c++17", "c++20"):
        program = str(tmp_path / "cpp")
        run(cpp, *strict, "-std=" + standard, str(source), "-o", program, *flags(installed, "--cflags", "--libs"))
        assert run(program, LD_LIBRARY_PATH=os.path.join(installed, "usr/local/lib")) == "Busy\n"


# --- examples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(os.listdir(os.path.join(LIB, "examples"))))
def test_examples(shown, name):
    if name.endswith(".c"):
        packages = ("libcounter", "libevent_core") if name == "libevent.c" else ("libcounter",)
        assert shown(os.path.join(LIB, "examples", name), "-std=c11", packages=packages) == EXAMPLES[name[:-2]]


def test_static(shown, tmp_path):
    """Without any shared library."""
    source = os.path.join(LIB, "examples", "lock.c")
    assert shown(source, "-static", "-Wl,--no-warnings", static=True) == EXAMPLES["lock"]
    assert "NEEDED" not in run("readelf", "-d", str(tmp_path / "program"))


# --- manual and README ---------------------------------------------------------------------------


def test_manual_is_installed_under_all_names(installed):
    folder = os.path.join(installed, "usr/local/share/man/man3")
    for name in declared() | {"libcounter"}:
        assert os.path.getsize(os.path.join(folder, name + ".3")) > 0


def test_manual_has_closed_quotes():
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    shown = run("mandoc", "-Tascii", os.path.join(TOP, "man", "libcounter.3"))
    assert '("inserted", "duplicate") or "job" ("ack", "nack", "bury", "lost")' in " ".join(shown.split())


def manual():
    return read("man", "libcounter.3")


def test_manual_names_all():
    text = manual()
    synopsis = text[: text.index(".Sh DESCRIPTION")]
    assert set(re.findall(r"^\.F[no] (counter_\w+)", synopsis, re.M)) == declared()
    rest = text[len(synopsis) :]
    missing = [name for name in declared() if not re.search(r"\b%s\b" % name, rest)]
    assert not missing
    header = read("lib", "counter.h")
    statuses = re.findall(r"^    (COUNTER_\w+)(?: = \d+)?,? ", header[: header.index("counter_is_refused")], re.M)
    assert len(statuses) == 19
    assert set(re.findall(r"^\.It Dv (COUNTER_\w+)", rest, re.M)) == set(statuses)
    parameters = set(re.findall(r"\w+", " ".join(re.findall(r"^\.It Cm (.*)", rest, re.M))))
    assert parameters == PARAMETERS
    assert set(re.findall(r"^    ROW\((\w+)\)", read("lib", "settings.c"), re.M)) == PARAMETERS


def test_manual_example_runs(shown):
    text = re.search(r"\.Bd -literal -offset indent\n(.*?)\.Ed", manual(), re.S).group(1).replace("\\e", "\\")
    assert shown(text) == "rendering\n"


def test_readme_runs(shown):
    text = read("lib", "README.md")
    said = shown(
        "#include <counter.h>\n#include <stdio.h>\nint main(void)\n{\n%s"
        '    printf("%%d %%d\\n", status, counter_run(end));\n'
        "    counter_op_free(end);\n    counter_op_free(op);\n    counter_close(client);\n    return 0;\n}\n"
        % re.search(r"```c\n(.*?)```", text, re.S).group(1)
    )
    assert said == "0 0\n"
    for name in set(re.findall(r"\b(counter_\w+)\(", text)):
        assert name in declared() | {"counter_str", "counter_is_refused", "counter_is_failed"}


if __name__ == "__main__":
    tap.main(__file__)
