"""Runs the command of one attempt at most once, and says how it ended: a process that outlives the runner.

It is started with a folder that holds `job.json`. It takes the only right to begin by making the file
`begun`, which a runner that starts again makes instead if nothing has begun. What it writes is on the disk
before it goes on. It imports little, for there is one for each task.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

JOB, BEGUN, EXIT, LOG = "job.json", "begun", "exit.json", "log"
GRACE_SECONDS = 10
"""Between SIGTERM and SIGKILL."""
CLEANUP_SECONDS, PAUSE_SECONDS = 60, 5
NOT_STARTED = 127
"""Exit code of a command that cannot be started, as shells have it."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_PARENT, SESSION, _START_TIME = 1, 3, 19
"""Fields of /proc/PID/stat, counted from the one behind the command's name."""


def take(folder: Path, content: dict[str, Any]) -> bool:
    """Make the file `begun`, whole and on the disk; return whether nobody did before."""
    return written(folder, BEGUN, content, os.link)


def boot_id() -> str:
    """Return what tells this boot of the machine from others."""
    return _BOOT_ID.read_text().strip()


def stat_of(pid: int) -> list[str] | None:
    """Return the fields of a process, from its state on; None if there is none, or it has ended.

    Raises:
        OSError: nobody can say, as where descriptors ran out.
    """
    with suppress(FileNotFoundError, ProcessLookupError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields if fields[0] not in "ZX" else None
    return None


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot, as `stat_of` does."""
    fields = stat_of(pid)
    return int(fields[_START_TIME]) if fields is not None else None


def main(folder: Path) -> None:
    """Run the job of a folder, if it has not begun."""
    job = json.loads((folder / JOB).read_bytes())
    libc = ctypes.CDLL(None)
    if not job["cleanup"]:  # what a container's program leaves behind is the runtime's
        libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    me = os.getpid()
    # Who sees that it began may end it at once, before there is a command to end.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if not take(folder, {"pid": me, "start_time": start_time(me), "boot": boot_id()}):
        return
    child = _fork(job, me, libc)
    signal.signal(signal.SIGTERM, lambda *_: _end(child))
    signal.signal(signal.SIGALRM, lambda *_: _kill_children())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    code = _reap(child)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the number may be another process's from now on
    signal.alarm(0)
    ended = {"code": code, "at": time.time()}
    if job["cleanup"]:
        _until(lambda: removed(job["cleanup"]))
    else:
        _end_descendants()
    _until(lambda: written(folder, EXIT, ended, os.rename))


def _fork(job: dict[str, Any], me: int, libc: Any) -> int:
    child = os.fork()
    if child:
        with suppress(OSError):  # here too, as shells do: whichever comes first makes the group
            os.setpgid(child, child)
        return child
    try:
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != me:
            os._exit(NOT_STARTED)
        os.setpgid(0, 0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and programs inherit that
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.chdir(job["folder"])
        os.execvpe(job["command"][0], job["command"], job["env"])  # noqa: S606 what the user submitted
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        said = f"fraction-injector: {job['command'][0]} cannot be started in {job['folder']}: {why}\n"
        os.write(2, said.encode())
    finally:
        os._exit(NOT_STARTED)


def _reap(child: int) -> int:
    """Wait for the command, and for orphans that end meanwhile."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _end(child: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # asking again does not put SIGKILL off
    signal.alarm(GRACE_SECONDS)
    with suppress(OSError):  # it is gone, or another user's, as sudo makes it
        os.killpg(child, signal.SIGTERM)


def _end_descendants() -> None:
    """Kill what the command left behind: those whose parent has ended are children of this process."""
    with suppress(ChildProcessError):
        while True:
            _kill_children()
            os.waitpid(-1, 0)


def _kill_children() -> None:
    me = str(os.getpid())
    for name in os.listdir("/proc"):  # noqa: PTH208 names are enough
        with suppress(OSError):
            if name.isdigit() and (fields := stat_of(int(name))) and fields[_PARENT] == me:
                os.kill(int(name), signal.SIGKILL)


def _until(done: Any) -> None:
    """Try until it is done: before that the card is not free, or a full disk would lose how a task ended."""
    while True:
        with suppress(OSError):
            if done():
                return
        time.sleep(PAUSE_SECONDS)


def removed(command: list[str]) -> bool:
    """Run what removes a container once; return whether there is none any more."""
    try:
        ended = subprocess.run(command, capture_output=True, check=False, timeout=CLEANUP_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0 or b"no such container" in ended.stderr.lower()


def written(folder: Path, name: str, content: dict[str, Any], place: Any) -> bool:
    """Put a file in its place, whole and on the disk; return whether `place` found none there."""
    fresh = folder / f".{name}.{os.getpid()}"
    try:
        with fresh.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        place(fresh, folder / name)
    except FileExistsError:
        return False
    finally:
        fresh.unlink(missing_ok=True)
    sync(folder)
    return True


def sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
