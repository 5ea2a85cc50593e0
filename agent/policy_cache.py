"""A compiled policy, stored with the digest of its files: an agent that restarts need not compile it first.

It only lets the agent register sooner. No share is allocated by it until compiling the files gives the same
policy (`agent.policy.PolicyWatch.is_confirmed`): every user can compute the digest.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.files import UNREADABLE, write_whole
from agent.private_folder import UntrustedError, private_folder, read_own
from agent.settings import AgentPolicy
from service.version import VERSION

KEPT = "policy.json"
MAX_BYTES = 4 * 1024 * 1024
"""Of all files together; larger directories are not stored."""


class KeptPolicy(msgspec.Struct, frozen=True):
    """A compiled policy, as `agent.policy_compiler` prints it and the agent stores it."""

    digest: str
    """Digest of its files."""
    policy: AgentPolicy


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return a digest of policy files and of our version.

    Args:
        files: contents by name.
    """
    digest = hashlib.sha256(VERSION.encode())
    for name, content in sorted(files.items()):
        digest.update(f"\n{len(name)} {name} {len(content)} ".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def keep(state_dir: Path, printed: bytes) -> None:
    """Store the compiler's output; if that fails, the next start takes longer."""
    with contextlib.suppress(OSError, UntrustedError):
        write_whole(private_folder(state_dir) / KEPT, printed)


def find_kept(state_dir: Path, directory: Path, name: str) -> AgentPolicy | None:
    """Return the stored policy of that name if it was compiled from the current files, else None."""
    try:
        kept = msgspec.json.decode(read_own(private_folder(state_dir) / KEPT), type=KeptPolicy)
        files = _files(directory)
    except (*UNREADABLE, UntrustedError):
        return None
    is_same = files is not None and kept.policy.name == name and kept.digest == digest_of(files)
    return kept.policy if is_same else None


def _files(directory: Path) -> dict[str, bytes] | None:
    """Return the files that the compiler reads; None if they are too large."""
    endings = (".yaml", ".yml")
    paths = [each for each in directory.iterdir() if each.name.endswith(endings) and each.name[0] != "."]
    if sum(path.stat().st_size for path in paths) > MAX_BYTES:
        return None
    return {path.name: path.read_bytes() for path in paths if path.is_file()}
