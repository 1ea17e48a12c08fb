"""
A plugin of pytest for mutants.py. With MUTANT_RECORD it writes which mutants each test comes to, and
how long it takes; with MUTANT_CASES it runs only the tests that this file names, in its order.
"""

import json
import os
import time

import pytest

SEEN = os.environ.get("COUNTERD_MUTANT_SEEN")
RECORD = os.environ.get("MUTANT_RECORD")
CASES = os.environ.get("MUTANT_CASES")


def case_of(item):
    return item.nodeid.partition("::")[2]


def pytest_collection_modifyitems(items):
    if CASES:
        with open(CASES, encoding="utf-8") as f:
            places = {case: place for place, case in enumerate(json.load(f))}
        items[:] = sorted((i for i in items if case_of(i) in places), key=lambda i: places[case_of(i)])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if not RECORD:
        yield
        return
    with open(SEEN, "r+b") as f:
        size = f.seek(0, 2)
        f.seek(0)
        f.write(bytes(size))
    began = time.monotonic()
    yield
    with open(SEEN, "rb") as f:
        content = f.read()
    row = {
        "case": case_of(item),
        "s": round(time.monotonic() - began, 2),
        "seen": [n for n, byte in enumerate(content) if byte],
    }
    with open(RECORD, "a", encoding="utf-8") as f:
        f.write(json.dumps(row) + "\n")
