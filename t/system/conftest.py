"""
Fixtures of the system tests. Every daemon that a test starts must end in order after the test.
"""

import pytest

import servers


@pytest.fixture
def start(request):
    """
    A function that starts the daemon with `-o` options ("key=value") and waits until it is ready.
    After the test each daemon must exit with 0 on SIGTERM, without a sanitizer's report.
    """
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    started = []

    def start_one(*options, **kwargs):
        daemon = servers.Counterd(*options, **kwargs)
        started.append(daemon)
        return daemon

    yield start_one
    problems = []
    for daemon in started:
        try:
            if not daemon.is_expected_to_be_gone:
                daemon.stop()
            else:
                daemon.check_log()
        except AssertionError as e:
            problems.append(str(e))
        finally:
            daemon.kill()
    assert not problems, "\n".join(problems)


@pytest.fixture
def daemon(start):
    """The daemon with both protocols and two workers."""
    return start("counter.threads=2")
