"""Compares counterbench(1) with what the program's help says of workloads, protocols and options."""

import os
import re
import subprocess
import sys

SOURCE = os.path.abspath(os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(SOURCE, "t", "system"))
import tap  # noqa: E402  (before pytest, which may not be installed)

import pytest  # noqa: E402

COUNTERBENCH = os.environ.get("COUNTERBENCH", "")
pytestmark = pytest.mark.skipif(not COUNTERBENCH, reason="COUNTERBENCH names no program")


def items(head, macro):
    """The items of a part of the manual: what follows the macro, and their text."""
    with open(os.path.join(SOURCE, "man", "counterbench.1"), encoding="utf-8") as f:
        part = re.search(r"^\.Sh %s\n(.*?)(?=^\.Sh |\Z)" % head, f.read(), re.S | re.M)[1]
    found = re.findall(r"^\.It ?%s ?([^\n]*)\n(.*?)(?=^\.It|^\.El)" % macro, part, re.S | re.M)
    assert len(dict(found)) == len(found)
    return dict(found)


def helped(head):
    """A part of the help."""
    said = subprocess.run([COUNTERBENCH, "-h"], capture_output=True, text=True, check=True).stdout
    return said.partition(head + ":\n")[2].partition("\n\n")[0]


def test_workloads_and_what_they_take():
    rows = re.findall(r"^  ([\w-]+) +\S.*\n {18}(.*)", helped("Workloads"), re.M)
    listed = items("WORKLOADS", "Ic")
    assert list(listed) and sorted(listed) == sorted(name for name, _ in rows)
    for name, takes in rows:
        wanted = dict(re.findall(r"--([\w-]+)(?: (\d+))?", takes))
        shown = re.findall(r"^\.Fl -([\w-]+)[^\n]*(?:\n\(([\d,]+)[);:])?", listed[name].rpartition("\nTakes\n")[2], re.M)
        assert dict((option, value.replace(",", "")) for option, value in shown) == wanted, name


def test_protocols_and_their_ports():
    rows = dict(re.findall(r"^  ([\w-]+) .*\(port (\d+)\)$", helped("Protocols"), re.M))
    listed = items("PROTOCOLS", "Cm")
    assert rows and set(listed) == set(rows)
    for name, port in rows.items():
        assert re.search(r"\bport %s\b" % port, listed[name]), name


def test_options_and_their_defaults():
    rows = re.findall(r"^  (?:-(\w), |    )--([\w-]+)(\[?)=?(\w*)\]? +(.*)", helped("Options"), re.M)
    heads = {}
    for letter, name, is_optional, argument, text in rows:
        head = (letter and letter + " , Fl ") + "-" + name
        head += (" Op" if is_optional else "") + (" Ar " + argument if argument else "")
        heads[head] = re.findall(r"\(default: (\S+)\)$", text)
    listed = items("OPTIONS", "Fl")
    assert heads and set(listed) == set(heads)
    for head, default in heads.items():
        assert re.findall(r"^Default: (\S+)\.$", listed[head], re.M) == default, head


def test_exit_statuses():
    assert list(items("EXIT STATUS", "")) == ["0", "1", "2"]


if __name__ == "__main__":
    tap.main(__file__)
