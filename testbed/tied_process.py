"""Become a command that the kernel kills when its parent dies: `tied_process.py PARENT-PID COMMAND...`.

A test run that is itself killed cannot stop what it started; this way nothing outlives it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h

parent, command = int(sys.argv[1]), sys.argv[2:]
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
    raise SystemExit(f"prctl: {os.strerror(ctypes.get_errno())}")
if os.getppid() != parent:
    raise SystemExit("the parent is gone already")
os.execv(command[0], command)  # noqa: S606 - the tests' own commands, and becoming one is the purpose
