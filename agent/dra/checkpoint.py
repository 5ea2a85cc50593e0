"""The claims that are prepared on this node, in a file of the agent's own folder.

The file is replaced as a whole, so an agent that is killed leaves the one before or the one after. If it is
lost, such as by a loss of power, each prepared claim still has its CDI file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.files import UNREADABLE, write_whole
from agent.gpu import Gpu
from agent.private_folder import NAME, UntrustedError, private_folder, read_own
from agent.shares import Share
from service.log import get_logger

FILE = "claims.json"


class PreparedDevice(msgspec.Struct, frozen=True):
    """A part of a card, or all of it, that a claim has."""

    request: str
    device: str
    share_id: str | None
    gpu: str
    """UUID of the card."""
    memory_mib: int | None
    """Its limit; None for a whole card."""

    def share_of(self, gpu: Gpu, slices_per_gpu: int) -> Share:
        """Return it as a share of its card, in slices rounded up."""
        if self.memory_mib is None:
            return Share(gpu, slices_per_gpu, None)
        slices = -(-self.memory_mib * slices_per_gpu // max(1, gpu.usable_mib))
        return Share(gpu, min(slices, slices_per_gpu), self.memory_mib)


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim that is prepared, by names of its objects."""

    namespace: str
    name: str
    pod: str
    """UID of its pod."""
    devices: tuple[PreparedDevice, ...]

    @property
    def amounts(self) -> frozenset[int | None]:
        """The limits of its devices."""
        return frozenset(each.memory_mib for each in self.devices)


class _Content(msgspec.Struct, frozen=True):
    boot: str
    claims: dict[str, PreparedClaim]


class _File(msgspec.Struct, frozen=True):
    content: _Content


class CheckpointError(Exception):
    """The file cannot be written; the text says why."""


class PreparedClaims:
    """The file, and its content in memory.

    Args:
        state_dir: the agent's folder.
        boot: ID of the node's boot; empty if unknown.
    """

    def __init__(self, state_dir: Path, boot: str) -> None:
        self.path = state_dir / NAME / FILE
        self._state_dir = state_dir
        self._boot = boot
        self._stored = self._read()

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """The prepared claims by UID."""
        return self._stored.claims

    @property
    def is_of_this_boot(self) -> bool:
        """Whether containers with these claims, and with claims that are not in a lost file, may run."""
        return self._stored.boot == self._boot

    def put(self, uid: str, claim: PreparedClaim) -> None:
        """Add a claim, or replace it.

        Raises:
            CheckpointError: it is not stored.
        """
        self._write({**self._stored.claims, uid: claim})

    def remove(self, uid: str) -> None:
        """Remove a claim, if it is there.

        Raises:
            CheckpointError: it is not removed.
        """
        if uid in self._stored.claims:
            self._write({key: claim for key, claim in self._stored.claims.items() if key != uid})

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        content = _Content(self._boot, claims)
        if content == self._stored:
            return
        try:
            write_whole(private_folder(self._state_dir) / FILE, msgspec.json.encode(_File(content)))
        except (OSError, UntrustedError) as error:
            raise CheckpointError(f"prepared claims cannot be stored: {error}") from error
        self._stored = content

    def _read(self) -> _Content:
        try:
            return msgspec.json.decode(read_own(private_folder(self._state_dir) / FILE), type=_File).content
        except FileNotFoundError:
            pass
        except (*UNREADABLE, UntrustedError) as error:
            get_logger("claims").error("the claims prepared earlier are unknown", file=FILE, error=str(error))
        return _Content(self._boot, {})
