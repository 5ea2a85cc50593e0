"""One attempt to run a task: its folder, its supervisor, and what became of both."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from baremetal import supervisor
from baremetal.job import CACHE, MARK, JobFile
from baremetal.supervisor import BEGUN, EXIT, JOB, LOG, SESSION, boot_id, removed, start_time, stat_of, take

SYSTEMD = Path("/run/systemd/system")
"""Is there where systemd runs the machine."""
MANAGER = () if os.geteuid() == 0 else ("--user",)
_PATIENCE = 30
"""Seconds in which systemd answers: the runner waits for it."""
_SCOPE = ("systemd-run", *MANAGER, "--scope", "--quiet", "--collect")


@functools.cache
def has_scopes() -> bool:
    """Return whether systemd gives this user control groups: a user without a session of its own has none."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        tried = subprocess.run([*_SCOPE, "--", "true"], capture_output=True, check=False, timeout=_PATIENCE)  # noqa: S603
        return SYSTEMD.exists() and tried.returncode == 0
    return False


class Exit(msgspec.Struct, frozen=True):
    """How a command ended, as its supervisor wrote it, and when in Unix time."""

    code: int | None
    """Its exit code, minus the signal's number if a signal ended it; None if nobody knows."""
    at: float
    why: str = ""
    """Why nobody knows."""


class Attempt:
    """An attempt, by a folder of its own; its processes carry `mark` as their value of `MARK`.

    Raises:
        OSError: by each method: nobody can say, as the disk is full or broken, or no process can be made.
    """

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self._unit = f"fraction-injector-{mark.replace('/', '-')}.scope"

    def start(self, job: JobFile) -> subprocess.Popen[bytes]:
        """Start a supervisor for a job, in a control group of its own where systemd gives one; return it."""
        (self.folder / CACHE).mkdir(parents=True, exist_ok=True)
        # Not by msgspec: variables may hold bytes that are no UTF-8.
        supervisor.written(self.folder, JOB, msgspec.structs.asdict(job), os.rename)
        for parent in self.folder.parents[:3]:  # up to the store's: these may be new
            supervisor.sync(parent)
        scope = (*_SCOPE, f"--unit={self._unit}", "--") if has_scopes() else ()
        with (self.folder / LOG).open("ab") as log:
            return subprocess.Popen(  # noqa: S603 our own program
                [*scope, sys.executable, "-I", "-S", supervisor.__file__, str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {MARK: self.mark},
            )

    def state(self) -> Exit | Literal["running"] | None:
        """Return what became of it; None if it has not begun, and never will."""
        begun = self._begun()
        if not begun:
            return None
        same_boot = begun["boot"] == boot_id()
        if same_boot and start_time(begun["pid"]) == begun["start_time"]:
            return "running"
        with contextlib.suppress(FileNotFoundError):
            return msgspec.json.decode((self.folder / EXIT).read_bytes(), type=Exit)
        why = "its supervisor was killed" if same_boot else "the machine went down while it ran"
        return Exit(None, time.time(), why)

    def end(self) -> None:
        """End it: SIGTERM, and SIGKILL ten seconds later; what has not begun never will."""
        if self.state() != "running":
            return
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(self._begun()["pid"])
            try:
                # Opened before this look: it stays that of one process, whoever gets the number next.
                if self.state() == "running":
                    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            finally:
                os.close(pidfd)

    def sweep(self) -> bool:
        """Kill what a supervisor that is gone left behind; return whether nothing is left."""
        begun, found = self._begun(), list[int]()
        if begun and begun["boot"] == boot_id():
            if has_scopes():
                self._kill_scope()
            found += self._processes(str(begun["pid"]), begun["start_time"])
        for pid in found:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                os.kill(pid, signal.SIGKILL)
        return not found and self._has_no_container()

    def _processes(self, session: str, since: int) -> Iterator[int]:
        """Yield what carries its mark, or is of its session and not older than it."""
        mark = f"{MARK}={self.mark}".encode()
        # The number may be another session's by now: then only the mark tells.
        is_ours = start_time(int(session)) in (None, since)
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:  # noqa: PTH208
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if (fields := stat_of(pid)) is None:
                    continue
                in_session = is_ours and fields[SESSION] == session and (start_time(pid) or 0) >= since
                if in_session or mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    yield pid

    def _kill_scope(self) -> None:
        kill = ["systemctl", *MANAGER, "kill", "--signal=SIGKILL", self._unit]
        with contextlib.suppress(subprocess.TimeoutExpired):  # what has ended is no unit: it may fail
            subprocess.run(kill, capture_output=True, check=False, timeout=_PATIENCE)  # noqa: S603

    def _has_no_container(self) -> bool:
        try:
            cleanup = json.loads((self.folder / JOB).read_bytes())["cleanup"]
        except (OSError, ValueError):
            return True  # it had none: the file is written before anything starts
        return not cleanup or removed(cleanup)

    def _begun(self) -> dict[str, Any]:
        """Return who began it, after nobody else can; empty if nobody did."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / BEGUN).exists() and take(self.folder, {}):
            return {}
        return dict(json.loads((self.folder / BEGUN).read_bytes()))
