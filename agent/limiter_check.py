"""Whether a process has the limiter loaded, by the files that it has mapped.

To read another process's maps takes CAP_SYS_PTRACE, and `hostPID` for the driver's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.settings import LimiterPart

MAX_MAPS = 4 * 1024 * 1024
"""Bytes of one process's maps that are read: a program can have any number of mappings."""
MAX_LOOKS = 64
"""Processes whose maps are read in one look; others wait for the next."""
_CHUNK = 64 * 1024
_DELETED = b" (deleted)"
Process = tuple[int, str]
"""Number of a process, and the id of its container: numbers are given again."""


class LimiterCheck:
    """Looks at each process once; a library that was preloaded stays loaded.

    Args:
        limiter: of the node's policy; of one that preloads nothing nothing can be said.
        proc: the node's processes.
    """

    def __init__(self, limiter: LimiterPart, proc: Path) -> None:
        self._path = limiter.preload.encode() if limiter.preload is not None else None
        # The file may be a link to another one beside it, by whose name it is mapped.
        self._folder = f"{limiter.library_path}/".encode() if limiter.library_path is not None else None
        self._proc = proc
        self._known: Mapping[Process, bool] = {}

    @property
    def can_tell(self) -> bool:
        """Whether there is a library to look for."""
        return self._path is not None

    def has_limiter(self, processes: Iterable[Process]) -> Mapping[Process, bool]:
        """Return whether processes have the limiter loaded, of those of which it can be told. It blocks."""
        if self._path is None:
            return {}
        wanted = list(dict.fromkeys(processes))
        known = {each: self._known[each] for each in wanted if each in self._known}
        for each in [each for each in wanted if each not in known][:MAX_LOOKS]:
            if (found := self._look(each[0])) is not None:
                known[each] = found
        self._known = known
        return known

    def _look(self, pid: int) -> bool | None:
        """Return whether the library is mapped; None where the maps cannot be read, or are too long."""
        rest, size = b"", 0
        try:
            with (self._proc / str(pid) / "maps").open("rb", buffering=0) as file:
                while chunk := file.read(_CHUNK):
                    size += len(chunk)
                    *lines, rest = (rest + chunk).split(b"\n")
                    if any(self._is_library(line) for line in lines):
                        return True
                    if size > MAX_MAPS:
                        return None
        except OSError:
            return None
        return False if size else None  # one that has ended has an empty file

    def _is_library(self, line: bytes) -> bool:
        fields = line.split(maxsplit=5)
        if len(fields) < len(("address", "perms", "offset", "dev", "inode", "pathname")):
            return False
        path = fields[5].removesuffix(_DELETED)  # a newer version takes the place of one that runs
        return path == self._path or (self._folder is not None and path.startswith(self._folder))
