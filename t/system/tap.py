"""Runs a file of pytest tests and reports in TAP, one line for each test.

A test file ends with `if __name__ == "__main__": tap.main(__file__)` and imports this module before
pytest, so that a machine without pytest skips it.
"""

import os
import signal
import sys

sys.dont_write_bytecode = True

try:
    import _pytest.runner
    import pytest
except ImportError:
    print("1..0 # SKIP pytest is not installed")
    sys.exit(0)

# A shell starts background jobs with these signals ignored; nohup ignores SIGHUP. Programs under
# test would inherit that, and then wait for ever.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# Set on some machines; programs under test that are in Python would then behave as on no other.
os.environ.pop("PYTHONUNBUFFERED", None)

# pytest puts the name of the test that runs into the environment, and takes it out. Threads that start
# programs copy the environment meanwhile, and fail if a name in it goes.
_pytest.runner._update_current_test_var = lambda *_: None


class Reporter:
    """Turns pytest's reports into TAP as they arrive."""

    def __init__(self, out):
        self.out = out
        self.count = 0
        self.failed = False

    def _line(self, text):
        self.out.write(text + "\n")
        self.out.flush()

    def _result(self, is_ok, name, note="", diagnostics=""):
        self.count += 1
        self.failed = self.failed or not is_ok
        name = name.replace("#", "no. ").replace("\n", " ")
        self._line("%s %d - %s%s" % ("ok" if is_ok else "not ok", self.count, name, note))
        for line in diagnostics.splitlines():
            self._line("# " + line)

    @staticmethod
    def _name(report):
        path, _, rest = report.nodeid.partition("::")
        stem = os.path.splitext(os.path.basename(path))[0]
        name = rest
        if name.startswith("test_"):
            function, bracket, parameters = name[len("test_") :].partition("[")
            name = function.replace("_", " ") + bracket + parameters
        return "%s: %s" % (stem.replace("test_", ""), name)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or (report.when == "setup" and not report.passed):
            if report.skipped:
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
                reason = reason.replace("Skipped: ", "").replace("\n", " ")
                self._result(True, self._name(report), " # SKIP " + reason)
            else:
                text = "" if report.passed else self._diagnostics(report)
                self._result(report.passed, self._name(report), diagnostics=text)
        elif report.when == "teardown" and report.failed:
            name = self._name(report) + " (ending)"
            self._result(False, name, diagnostics=self._diagnostics(report))

    @staticmethod
    def _diagnostics(report):
        text = report.longreprtext
        for title, content in report.sections:
            text += "\n--- %s\n%s" % (title, content)
        return text

    def pytest_collectreport(self, report):
        if report.failed:
            self._result(False, "collecting " + report.nodeid, diagnostics=report.longreprtext)
        elif report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].replace("Skipped: ", "")
            self._result(True, os.path.basename(report.nodeid), " # SKIP " + reason)


def main(*paths, arguments=None):
    """Runs the tests of `paths`. Further pytest arguments come from the command line."""
    reporter = Reporter(os.fdopen(os.dup(1), "w"))
    if not os.environ.get("T_PYTEST_REPORT"):
        # pytest's own report is not TAP, so drop it unless T_PYTEST_REPORT is set.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    options = ["-p", "no:cacheprovider", "-q", "--tb=short", "--rootdir", os.path.dirname(paths[0])]
    chosen = sys.argv[1:] if arguments is None else arguments
    status = pytest.main(options + chosen + [os.path.abspath(p) for p in paths], plugins=[reporter])
    if status not in (0, 1, 5):
        reporter._line("Bail out! pytest ended with status %d" % status)
        sys.exit(1)
    if reporter.count == 0 and not chosen:
        reporter._line("Bail out! no tests")
        sys.exit(1)
    if reporter.count == 0:
        reporter._line("1..0 # SKIP no test was chosen")
    else:
        reporter._line("1..%d" % reporter.count)
    sys.exit(1 if reporter.failed or status == 1 else 0)
