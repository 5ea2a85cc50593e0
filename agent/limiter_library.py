"""The limiter's library on the node, which containers mount; the agent restores it if it changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from agent.files import is_regular, write_whole
from agent.limits import loader_list
from agent.settings import LimiterPart
from service.log import get_logger

FOLDER = "library"


class LibraryError(Exception):
    """The library is missing or changed, so shares would have no limit."""


class LimiterLibrary:
    """Copies the library to the node, and checks it before each start of a container.

    Args:
        limiter: the limiter of the node's policy; without a preloaded library nothing is done.
        state_dir: the agent's folder.
        source: folder of the agent's own pod with the library; None uses the files that are on the node when
            the agent starts.
    """

    def __init__(self, limiter: LimiterPart, state_dir: Path, source: Path | None) -> None:
        self._limiter = limiter
        self._state_dir = state_dir
        self._source = source
        self._folder = state_dir / FOLDER
        self._digests: dict[str, str] = {}
        self._log = get_logger("limiter's library")

    def prepare(self) -> None:
        """Read the library, and copy it to the node.

        Raises:
            LibraryError: it is missing, or cannot be written.
        """
        preload = self._limiter.preload
        if preload is None:
            return
        source = self._source or self._folder
        with _said(self._state_dir):
            files = source.iterdir() if source.is_dir() else ()
            self._digests = {path.name: known for path in files if (known := _digest(path)) is not None}
            if (file := source / PurePosixPath(preload).name).name not in self._digests:
                raise self._missing(file)
            if self._folder.is_symlink():
                raise LibraryError(f"{self._folder} is a link: remove it")
            self._folder.mkdir(parents=True, exist_ok=True)
        self._write()

    def check(self) -> None:
        """Restore changed files.

        Raises:
            LibraryError: they cannot be restored.
        """
        if self._limiter.preload is not None and self._write():
            self._log.warning(
                "the limiter's library on the node was another one: it is put back", folder=str(self._folder)
            )

    def _missing(self, file: Path) -> LibraryError:
        if os.path.lexists(file):
            return LibraryError(
                f"{file} is no file that the agent can read: have the init container copy the library itself,"
                " no link to it, for all to read"
            )
        return LibraryError(
            f"{file} is not there: put the library of limiter {self._limiter.name} there, or choose a policy"
            " with limiter none"
        )

    def _write(self) -> bool:
        """Write files that differ; return whether a file of the library did."""
        preload = self._limiter.preload or ""
        with _said(self._state_dir):
            changed = [name for name, known in self._digests.items() if _digest(self._folder / name) != known]
            for name in changed:
                if self._source is None:
                    raise LibraryError(
                        f"{self._folder / name} is not what it was when the agent started: put it back, or"
                        " start the agent again if it is meant"
                    )
                # A new file replaces the old one, which running programs have mapped.
                write_whole(self._folder / name, (self._source / name).read_bytes())
            write_whole(self._state_dir / loader_list(preload), f"{preload}\n".encode())
        return bool(changed)


def _digest(path: Path) -> str | None:
    """Return the digest of a regular file; None for a link, and for what is missing or cannot be read."""
    if not is_regular(path):
        return None
    with contextlib.suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None


@contextlib.contextmanager
def _said(state_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LibraryError(f"{error.filename or state_dir} cannot be written: {error.strerror}") from error
