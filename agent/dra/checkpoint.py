"""The claims that are prepared on this node, in a file of the agent's own folder.

The file is replaced as a whole, so an agent that is killed leaves the one before or the one after. One that a
loss of power tore has another checksum; the kubelet then prepares the claims of all its pods again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from agent.files import UNREADABLE, write_whole
from agent.gpu import Gpu
from agent.private_folder import NAME, UntrustedError, private_folder, read_own
from agent.shares import Share
from service.log import get_logger

FILE = "claims.json"
MAX_CLAIMS = 1024
"""More than the pods of any node."""
MAX_BYTES = 32 * 1024 * 1024


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
    is_whole: bool = True


class _File(msgspec.Struct, frozen=True):
    sha256: str
    content: msgspec.Raw


class CheckpointError(Exception):
    """The file cannot be written, or no further claim fits; the text says which."""


class PreparedClaims:
    """The file, and its content in memory.

    Args:
        state_dir: the agent's folder.
        boot: ID of the node's boot; empty if unknown.
        left: UIDs of the claims that have a CDI file.
    """

    def __init__(self, state_dir: Path, boot: str, left: Collection[str] = ()) -> None:
        self._state_dir = state_dir
        self._boot = boot
        self._log = get_logger("claims")
        self.is_whole = True
        """Whether no claim of before can be unknown."""
        self._claims, self._boot_of_file = self._read(left)

    @property
    def path(self) -> Path:
        """The file."""
        return self._state_dir / NAME / FILE

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """The prepared claims by UID."""
        return self._claims

    @property
    def claims_of_this_boot(self) -> Mapping[str, PreparedClaim]:
        """Those whose containers may run; none if the node has restarted since."""
        return self._claims if self._boot_of_file == self._boot else {}

    def put(self, uid: str, claim: PreparedClaim) -> None:
        """Add a claim, or replace it.

        Raises:
            CheckpointError: it is not stored.
        """
        if uid not in self._claims and len(self._claims) >= MAX_CLAIMS:
            raise CheckpointError(f"{MAX_CLAIMS} claims are prepared on this node: delete pods of it first")
        self._write({**self._claims, uid: claim}, is_whole=self.is_whole)

    def remove(self, uid: str, left: Collection[str] = ()) -> None:
        """Remove a claim, if it is there.

        Args:
            uid: of the claim.
            left: UIDs of the claims that have a CDI file now; if all are known, no claim is unknown.

        Raises:
            CheckpointError: it is not removed.
        """
        claims = {key: claim for key, claim in self._claims.items() if key != uid}
        is_whole = self.is_whole or set(left) <= claims.keys()
        if uid in self._claims or is_whole != self.is_whole:
            self._write(claims, is_whole=is_whole)

    def _write(self, claims: dict[str, PreparedClaim], *, is_whole: bool) -> None:
        same = claims == self._claims and is_whole == self.is_whole
        if same and self._boot_of_file == self._boot:
            return
        content = msgspec.json.encode(_Content(self._boot, claims, is_whole))
        file = _File(hashlib.sha256(content).hexdigest(), msgspec.Raw(content))
        try:
            write_whole(private_folder(self._state_dir) / FILE, msgspec.json.encode(file))
        except (OSError, UntrustedError) as error:
            raise CheckpointError(f"prepared claims cannot be stored: {error}") from error
        self._claims, self._boot_of_file, self.is_whole = claims, self._boot, is_whole

    def _read(self, left: Collection[str]) -> tuple[dict[str, PreparedClaim], str]:
        try:
            content = _decoded(read_own(private_folder(self._state_dir) / FILE))
        except FileNotFoundError:
            if left:
                self.is_whole = False
                self._log.error("the claims prepared earlier are unknown: the file is gone", file=FILE)
            return {}, self._boot
        except (*UNREADABLE, UntrustedError, CheckpointError) as error:
            self.is_whole = False
            self._log.error("the claims prepared earlier are unknown", file=FILE, error=str(error))
            return {}, self._boot
        # After a restart of the node, no container of before runs.
        self.is_whole = content.is_whole or content.boot != self._boot
        return content.claims, content.boot


def _decoded(text: bytes) -> _Content:
    if len(text) > MAX_BYTES:
        raise CheckpointError(f"it has more than {MAX_BYTES} bytes")
    file = msgspec.json.decode(text, type=_File)
    if hashlib.sha256(bytes(file.content)).hexdigest() != file.sha256:
        raise CheckpointError("its checksum does not match")
    return msgspec.json.decode(file.content, type=_Content)
