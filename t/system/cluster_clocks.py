"""Sets the clocks that a daemon or an engine sees, while it runs (clock_shift.c)."""

import os
import struct

LIBRARY = os.path.join(
    os.path.abspath(os.environ.get("TOP_BUILDDIR", "build")), "t", "system", "clock_shift.so"
)


def have_clocks():
    """True if there is the library to preload."""
    return os.path.exists(LIBRARY)


class Clocks:
    """Those of the programs that are started with `environment`; the file is in `folder`."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "clocks")
        self.shift()

    def shift(self, wall_s=0.0, others_s=0.0):
        """The wall clock is ahead by `wall_s`, the others by `others_s`."""
        data = struct.pack("=qq", int(wall_s * 1e9), int(others_s * 1e9))
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.pwrite(fd, data, 0)  # in place, because it is mapped
        finally:
            os.close(fd)

    @property
    def environment(self):
        return {"LD_PRELOAD": LIBRARY, "CLOCK_SHIFT_FILE": self.path}
