"""A policy directory, or its files, in; a checked policy set out, or everything that is wrong with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from policies.loading.compile import compile_policies
from policies.loading.policy_set import PolicySet
from policies.loading.sources import LOCK_FILE, read_parts
from policies.loading.strict_yaml import MAX_BYTES
from policies.model.problems import PolicyError, Problem, UnreadableError

ENDINGS = (".yaml", ".yml")
MAX_FILES = 200
MAX_TOTAL_BYTES = 4 * MAX_BYTES
"""Of all files: four ConfigMaps, projected into one folder."""
ATTEMPTS = 5


def parse_policies(files: Mapping[str, bytes]) -> PolicySet:
    """Read a whole policy set from file contents by name; reads nothing else.

    Raises:
        PolicyError: with every problem found.
    """
    if not files:
        rule = "holds no policy file: add one ending in .yaml or .yml with kind: Policy and name: default"
        raise PolicyError([Problem(".", 0, "", rule)])
    size = sum(map(len, files.values()))
    if size > MAX_TOTAL_BYTES:
        rule = f"holds {size} bytes of policy files; at most {MAX_TOTAL_BYTES} are read: take some away"
        raise PolicyError([Problem(".", 0, "", rule)])
    return compile_policies(read_parts(files))


def parse_handed(files: Mapping[str, bytes]) -> PolicySet:
    """Read a whole policy set that somebody else read from a directory, by the rules for a directory.

    Raises:
        PolicyError: with every problem found, names included that no directory is asked for.
    """
    if len(files) > MAX_FILES:
        raise PolicyError([_too_many(len(files))])
    strange = [
        Problem(name, 0, "", "is not the name of a policy file")
        for name in files
        if not _is_policy_file(name)
    ]
    if strange:
        raise PolicyError(strange)
    return parse_policies(files)


def load_policies(directory: Path) -> PolicySet:
    """Read a policy directory: LOCK_FILE, and of its top level `.yaml` and `.yml` without a dot before.

    Raises:
        PolicyError: with every problem found, unreadable files and folders included.
    """
    return parse_policies(read_directory(directory))


def read_directory(directory: Path) -> dict[str, bytes]:
    """Read the files of a policy directory as one consistent whole.

    A ConfigMap's folder is swapped by a symlink, `..data`, while we read: files are taken from the folder
    that it pointed to, or from its successor if that went away meanwhile.

    Raises:
        UnreadableError: a file or the folder cannot be read.
    """
    for _ in range(ATTEMPTS):
        folder = _snapshot(directory)
        try:
            files = _read_all(folder)
        except UnreadableError:
            if _snapshot(directory) == folder:
                raise
        else:
            # Only now: the kubelet deletes the old folder's files one by one, after the swap.
            if _snapshot(directory) == folder:
                return files
    raise UnreadableError([Problem(".", 0, "", "changes faster than it can be read")])


def _snapshot(directory: Path) -> Path:
    data = directory / "..data"
    return Path(os.path.realpath(data if data.exists() else directory))


def _read_all(folder: Path) -> dict[str, bytes]:
    try:
        names = sorted(name for name in os.listdir(folder) if _is_policy_file(name))  # noqa: PTH208  names only
    except OSError as error:
        raise UnreadableError([Problem(".", 0, "", f"cannot be read: {error.strerror}")]) from None
    if len(names) > MAX_FILES:
        raise PolicyError([_too_many(len(names))])
    files: dict[str, bytes] = {}
    problems = []
    for name in names:
        try:
            files[name] = _read_file(folder / name)
        except OSError as error:
            problems.append(Problem(name, 0, "", f"cannot be read: {error.strerror}"))
    if problems:
        raise UnreadableError(problems)
    return files


def _too_many(files: int) -> Problem:
    return Problem(".", 0, "", f"holds {files} files; at most {MAX_FILES} are read: join them")


def _is_policy_file(name: str) -> bool:
    return (name.endswith(ENDINGS) and not name.startswith(".")) or name == LOCK_FILE


def _read_file(file: Path) -> bytes:
    """Read a regular file, at most one byte more than the size cap (the cap's own error is the parser's)."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(0, "is not a regular file")
        return stream.read(MAX_BYTES + 1)
