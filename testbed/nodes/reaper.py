"""Outlives the test run and leaves nothing of it: `python -m testbed.nodes.reaper`.

Each line of stdin names a kind and a path, `cgroup /sys/fs/...` or `folder /tmp/...`. When stdin ends,
because the run ended or was killed, every process in the groups is killed, and groups and folders are
removed. Exits with 1 and names what could not be.
"""

import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from testbed.nodes import cgroups

FOLDER_S = 20


def main() -> None:
    """Keep the books until the end of stdin, then clean up."""
    # Ctrl-C is for the run, whose end is seen on stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    kept: dict[str, list[Path]] = {"cgroup": [], "folder": []}
    for line in sys.stdin:
        kind, _, path = line.rstrip("\n").partition(" ")
        kept[kind].append(Path(path))
    left = [*cgroups.clear(kept["cgroup"]), *_remove(kept["folder"])]
    if left:
        raise SystemExit(f"left behind: {', '.join(map(str, left))}")


def _remove(folders: Iterable[Path]) -> list[Path]:
    end = time.monotonic() + FOLDER_S
    left = list(folders)
    while left and time.monotonic() < end:
        for folder in left:
            with suppress(OSError):
                shutil.rmtree(folder)
        left = [folder for folder in left if folder.exists()]
        if left:
            time.sleep(cgroups.POLL_S)
    return left


if __name__ == "__main__":
    main()
