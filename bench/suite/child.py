"""What every process that the suite starts has in common."""

import ctypes
import os
import resource
import signal

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def bound(cpus=None):
    """
    Further arguments for Popen: in a session of its own, so that Ctrl-C is for us, who then end it;
    if we are killed, so is it; and on these processors only, where any are named.
    """

    def in_child():
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if cpus is not None:
            os.sched_setaffinity(0, cpus)

    return {"start_new_session": True, "preexec_fn": in_child}


def cpu_ns(pid):
    """Processor time that all threads of a process have used."""
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
