"""Whether a process has the limiter loaded, by its mapped files.

Reading another process's maps needs CAP_SYS_PTRACE, and `hostPID` for the driver's process IDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.settings import LimiterPart

MAX_MAPS = 4 * 1024 * 1024
"""Maximum bytes of one process's maps: a program can have any number of mappings."""
MAX_LOOKS = 64
"""Maximum processes whose maps are read in one check; others wait for the next."""
_DELETED = b" (deleted)"
Process = tuple[int, str]
"""Process ID and container ID: process IDs are reused."""


class LimiterCheck:
    """Checks each process once, because a preloaded library stays loaded.

    Args:
        limiter: the limiter of the node's policy; without a preloaded library nothing can be checked.
        proc: folder of the node's processes.
    """

    def __init__(self, limiter: LimiterPart, proc: Path) -> None:
        self._path = limiter.preload.encode() if limiter.preload is not None else None
        # The file may be a link to another one in this folder; the target's name is mapped.
        self._folder = f"{limiter.library_path}/".encode() if limiter.library_path is not None else None
        self._proc = proc
        self._known: Mapping[Process, bool] = {}

    @property
    def can_tell(self) -> bool:
        """Whether there is a library to look for."""
        return self._path is not None

    def has_limiter(self, processes: Iterable[Process]) -> Mapping[Process, bool]:
        """Return whether processes have the limiter loaded; unreadable ones are left out. It blocks."""
        wanted = dict.fromkeys(processes) if self.can_tell else {}
        known = {each: self._known[each] for each in wanted if each in self._known}
        for each in [each for each in wanted if each not in known][:MAX_LOOKS]:
            if (found := self._look(each[0])) is not None:
                known[each] = found
        self._known = known
        return known

    def _look(self, pid: int) -> bool | None:
        """Return whether the library is mapped; None if the maps cannot be read or are too long."""
        try:
            with (self._proc / str(pid) / "maps").open("rb") as file:
                maps = file.read(MAX_MAPS + 1)
        except OSError:
            return None
        if any(self._is_library(line) for line in maps.split(b"\n")):
            return True
        # The file of an ended process is empty.
        return False if 0 < len(maps) <= MAX_MAPS else None

    def _is_library(self, line: bytes) -> bool:
        fields = line.split(maxsplit=5)
        if len(fields) < len(("address", "perms", "offset", "dev", "inode", "pathname")):
            return False
        path = fields[5].removesuffix(_DELETED)  # a newer version may have replaced the file
        return path == self._path or (self._folder is not None and path.startswith(self._folder))
