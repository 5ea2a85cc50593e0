"""Loads a policy directory, or its files, as a checked policy set, or reports all problems."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from policies.loading.compile import compile_policies
from policies.loading.policy_set import DEFAULT, PolicySet
from policies.loading.sources import LOCK_FILE, read_parts
from policies.loading.strict_yaml import MAX_BYTES, Document
from policies.model.problems import PolicyError, Problem, UnreadableError

ENDINGS = (".yaml", ".yml")
BUILT_IN = Path(__file__).parent.parent / "default.yaml"
MAX_TOTAL_BYTES = 4 * MAX_BYTES
"""Bytes of all files, which the controller also gives to webhooks that start."""
ATTEMPTS = 5


def parse_policies(files: Mapping[str, bytes], *, by_claim: bool = False) -> PolicySet:
    """Read a policy set from file contents by name; `by_claim` says whether the mode `auto` means `dra`.

    Raises:
        PolicyError: with every problem found.
    """
    if not files:
        rule = "has no policy file: add one ending in .yaml or .yml with kind: Policy and name: default"
        raise PolicyError([Problem(".", 0, "", rule)])
    if (size := sum(map(len, files.values()))) > MAX_TOTAL_BYTES:
        rule = f"has {size} bytes of policy files; the maximum is {MAX_TOTAL_BYTES}: remove some"
        raise PolicyError([Problem(".", 0, "", rule)])
    return compile_policies(read_parts(files, by_claim=by_claim))


def load_policies(directory: Path, *, by_claim: bool = False) -> PolicySet:
    """Read a policy directory: LOCK_FILE, and `.yaml` and `.yml` files of the top level that are not hidden.

    `by_claim` says whether the mode `auto` means `dra`.

    Raises:
        PolicyError: with every problem found, including unreadable files and folders.
    """
    return parse_policies(read_directory(directory), by_claim=by_claim)


def files_in(name: str, content: bytes, documents: Sequence[Document]) -> dict[str, bytes]:
    """Return the policy files in a file: a ConfigMap's, as kubectl and Helm print it, or itself.

    If it has no default policy itself, the built-in one comes with it. `documents` are those of the file.
    """
    found = [each.data for each in documents if isinstance(each.data, dict)]
    if [each.get("kind") for each in found] == ["ConfigMap"]:
        data = found[0].get("data")
        return {key: str(text).encode() for key, text in data.items()} if isinstance(data, dict) else {}
    built_in = (
        {} if DEFAULT in [each.get("name") for each in found] else {"(default).yaml": BUILT_IN.read_bytes()}
    )
    return {name: content} | built_in


def read_directory(directory: Path) -> dict[str, bytes]:
    """Read the files of a policy directory in one consistent version.

    The kubelet swaps a ConfigMap's folder by a symlink, `..data`. All files come from the folder that it
    points to; if that disappears meanwhile, they are read again from its successor.

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
            # Check after reading: the kubelet deletes the old folder's files one by one, after the swap.
            if _snapshot(directory) == folder:
                return files
    raise UnreadableError([Problem(".", 0, "", "changes faster than it can be read")])


def _snapshot(directory: Path) -> Path:
    data = directory / "..data"
    return Path(os.path.realpath(data if data.exists() else directory))


def _read_all(folder: Path) -> dict[str, bytes]:
    try:
        found = sorted(os.listdir(folder))  # noqa: PTH208  names only
    except OSError as error:
        raise UnreadableError([Problem(".", 0, "", f"cannot be read: {error.strerror}")]) from None
    files: dict[str, bytes] = {}
    problems = []
    for name in found:
        if name != LOCK_FILE and (not name.endswith(ENDINGS) or name.startswith(".")):
            continue
        try:
            files[name] = _read_file(folder / name)
        except OSError as error:
            problems.append(Problem(name, 0, "", f"cannot be read: {error.strerror}"))
    if problems:
        raise UnreadableError(problems)
    return files


def _read_file(file: Path) -> bytes:
    """Read a regular file, at most MAX_BYTES and one more; the parser reports a file that is too large."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(0, "is not a regular file")
        return stream.read(MAX_BYTES + 1)
