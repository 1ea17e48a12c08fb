"""
Existing clients of beanstalkd, unchanged, on the daemon and on Debian's beanstalkd: their own suites
where their packages have one, else every call of theirs. ../clients/README.md lists them. npm installs
its clients in t/clients/out below the build folder, in the versions of the lock file.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
import tap

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients")
sys.path.insert(1, CLIENTS)

import npm_modules  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

JOBS = ("counter.threads=2", "jobs.enable=true", "jobs.port=0", "jobs.max_job_size=65535")


@pytest.fixture(params=["ours", "beanstalkd"])
def serve(request, start):
    """A function that starts a server, and returns its port."""
    started = []

    def serve_one():
        if request.param == "ours":
            return start(*JOBS).jobs[1]
        started.append(servers.Beanstalkd(max_job_size=65535))
        return started[-1].jobs[1]

    if request.param == "beanstalkd" and not servers.Beanstalkd.is_installed():
        pytest.skip("beanstalkd is not installed")
    if request.param == "beanstalkd" and wire.SLOW:
        pytest.skip("beanstalkd is tested with the plain build only")
    serve_one.env = {} if request.param == "ours" else {"RELEASE_LATE_JOBS": "1"}
    yield serve_one
    for server in started:
        server.kill()


def need_program(name):
    found = shutil.which(name)
    if not found:
        pytest.skip(name + " is not installed")
    return found


def run(command, folder=CLIENTS, seconds=30, **env):
    """Runs a program, which must end with status 0. Returns what it wrote."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(os.environ, **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=wire.DEADLINE + seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise AssertionError("%s does not end:\n%s" % (command, e.stdout)) from None
    assert done.returncode == 0, "%s: status %d\n%s" % (command, done.returncode, done.stdout[-4000:])
    return done.stdout


@pytest.fixture(scope="module")
def modules():
    """The folder of what npm installed."""
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    try:
        return npm_modules.installed()
    except npm_modules.Missing as e:
        pytest.skip(str(e))


# --- npm -----------------------------------------------------------------------------------------


def test_fivebeans_own_suite(serve, modules):
    said = run(
        ["node", "--require", os.path.join(CLIENTS, "port.cjs"),
         os.path.join(modules, "mocha", "bin", "_mocha"), "-t", "8000", "-R", "tap",
         "--invert", "--grep", "emits the error event on failure", "test/"],
        folder=os.path.join(modules, "fivebeans"),
        seconds=60,
        BEANSTALK_PORT=str(serve()),
    )  # fmt: skip
    assert "\n# pass 53\n# fail 0" in said, said


def suite_job(folder, name):
    """The body of the job that a test of nodestalker finds, which its own server would send."""
    if name == "test_reserve_buffer.js":
        return bytes(4)  # what its Buffer.alloc(4, [1, 2, 3, 4]) is
    if name == "test_utf8_reserve.js":
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            return re.search(r'utfstr = "(.*)"', f.read()).group(1).encode()
    if name in ("test_reserve_with_timeout.js", "test_reserve_jobs_multichunk.js"):
        return b"a job"
    return None


def test_nodestalker_own_suite(serve, modules):
    folder = os.path.join(modules, "nodestalker")
    tests = os.path.join(folder, "tests")
    names = sorted(name for name in os.listdir(tests) if name.startswith("test_"))
    names.remove("test_reserve_jobs_multichunk_timeout.js")
    assert len(names) == 26
    for name in names:
        port, body = serve(), suite_job(tests, name)
        if body is not None:
            with wire.JobClient(("127.0.0.1", port)) as client:
                client.put(body)
        run(["node", os.path.join("tests", name)], folder, BEANSTALKD="1", BEANSTALK_PORT=str(port))


def test_jackd(serve, modules):
    run(["node", "jackd.mjs", str(serve())], JACKD=os.path.join(modules, "jackd"), **serve.env)


# --- Debian --------------------------------------------------------------------------------------


def test_pheanstalk(serve):
    php = need_program("php")
    if not os.path.exists("/usr/share/php/Pheanstalk/autoload.php"):
        pytest.skip("php-pda-pheanstalk is not installed")
    run([php, "pheanstalk.php", str(serve())], **serve.env)


def test_beaneater(serve):
    ruby = need_program("ruby")
    if not os.path.exists("/usr/lib/ruby/vendor_ruby/beaneater.rb"):
        pytest.skip("ruby-beaneater is not installed")
    run([ruby, "beaneater.rb", str(serve())], **serve.env)


if __name__ == "__main__":
    tap.main(__file__)
