"""Executes a program that the kernel kills (SIGSYS) at the first system call that is not named:

    confined.py CALL,CALL,... PROGRAM [ARGUMENT]...

With CALL=ERROR that call fails, and all others are made. A unit's SystemCallFilter= answers a call
that it does not name with an error, which the program might ignore. The program can't raise its limit
of descriptors, as under a service manager that sets LimitNOFILE=.
"""

import ctypes
import functools
import os
import resource
import shutil
import struct
import subprocess
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LOAD_NUMBER, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of a BPF program
ALLOW, FAIL, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000


def settings(path):
    """The settings of a unit: lists of values, by key."""
    found = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith("#"):
                found.setdefault(key, []).append(value)
    return found


@functools.cache
def members(name):
    """The system calls of a set, including those of its subsets; for a call, its own name."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.check_output(["systemd-analyze", "syscall-filter", "--no-pager", name], text=True)
    words = {line.strip() for line in text.splitlines()}
    return set().union(*(members(word) for word in words if word and word != name and not word.startswith("#")))


@functools.cache
def allowed_calls(unit):
    """The system calls that SystemCallFilter= of a service allows. The lines apply in order."""
    allowed = members("@default")
    for value in settings(unit)["SystemCallFilter"]:
        for name in value.lstrip("~").split():
            allowed = allowed - members(name) if value.startswith("~") else allowed | members(name)
    return allowed


def words(unit):
    """The words before a command that confine it to the system calls of a service."""
    calls = set(allowed_calls(unit))
    if os.geteuid() == 0:
        calls.add("fchown")  # SQLite gives root's new files to the owner of the database
    return [sys.executable, "-B", os.path.abspath(__file__), ",".join(sorted(calls))]


@functools.cache
def works():
    """True if calls can be filtered here, and we know those of sets."""
    if not shutil.which("gcc") or not shutil.which("systemd-analyze"):
        return False
    known = [sys.executable, "-B", os.path.abspath(__file__), ",".join(members("@known") | members("@default")), "true"]
    return subprocess.run(known, check=False).returncode == 0


def call_numbers():
    """The numbers of this machine's system calls, by name, from the compiler's headers."""
    text = subprocess.run(
        ["gcc", "-E", "-dM", "-"], input=b"#include <asm/unistd.h>\n", capture_output=True, check=True
    ).stdout.decode()
    defined = dict(line.split()[1:3] for line in text.splitlines() if line.startswith("#define __NR"))
    numbers = {}
    for name, value in defined.items():
        while value in defined:
            value = defined[value]
        if name.startswith("__NR_") and value.isdigit():
            numbers[name[len("__NR_") :]] = int(value)
    return numbers


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def confine(numbers, then, otherwise):
    """What the kernel does at these calls, and at all others."""
    steps = [(LOAD_NUMBER, 0, 0, 0)]
    for number in sorted(numbers):
        steps += [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, then)]
    steps.append((RETURN, 0, 0, otherwise))
    program = Program(len(steps), b"".join(struct.pack("=HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def main():
    known, (names, _, error) = call_numbers(), sys.argv[1].partition("=")
    numbers = {known[name] for name in names.split(",") if name in known}
    if error:
        confine(numbers, FAIL | int(error), ALLOW)
    else:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        confine(numbers, ALLOW, KILL_PROCESS)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
