"""Become a command that the kernel kills when its parent dies: `tied_process.py PARENT-PID COMMAND...`.

A test run that is itself killed cannot stop what it started; this way nothing outlives it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tie(parent: int) -> None:
    """Have the kernel kill this process when its parent, of this id, dies."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise SystemExit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        raise SystemExit("the parent is gone already")


if __name__ == "__main__":
    tie(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the tests' own commands, and becoming one is the purpose
