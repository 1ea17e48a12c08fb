"""Common code for all processes that the suite starts."""

import ctypes
import os
import resource
import signal

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def bound(cpus=None):
    """
    Further arguments for Popen. The child gets its own session, so that Ctrl-C reaches only us, and
    we end it. The kernel kills it when we are killed. With `cpus` it runs only on these processors.
    """

    def in_child():
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if cpus is not None:
            os.sched_setaffinity(0, cpus)

    return {"start_new_session": True, "preexec_fn": in_child}


def cpu_ns(pid):
    """Processor time used by all threads of a process."""
    used = 0
    folder = "/proc/%d/task" % pid
    for task in os.listdir(folder):
        try:
            with open("%s/%s/schedstat" % (folder, task)) as f:
                used += int(f.read().split()[0])
        except FileNotFoundError:
            pass
    return used


def cpu_of_ended():
    """Processor seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
