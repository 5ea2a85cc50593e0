"""CDI specifications of claims: one file for each, with a device for each limited part of a card."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.cdi import CLAIM_FILE_PREFIX, CLAIM_KIND, CdiError, edits_of, specification
from agent.dra.agreement import agreement_hook
from agent.dra.checkpoint import PreparedClaim, PreparedDevice
from agent.driver_limits import DriverLimits
from agent.files import write_whole
from agent.gpu import Gpu
from agent.settings import AgentPolicy
from agent.shares import Share

_BY_CARD = "nvidia.com/gpu-{index}"
"""A container may have several cards, each with a limit of its own, as in mode per-gpu."""
_PREPARED = {"name": "prepared", "containerEdits": {"env": ["CLEARML_INJECTOR_CLAIM=prepared"]}}
"""In the file of a claim without limits, such as one of whole cards; no container gets it.

With a file for each claim, those that a lost checkpoint had are known to be unknown.
"""


class ClaimSpecifications:
    """Writes and removes the files, one for each prepared claim."""

    def __init__(
        self,
        directory: Path,
        policy: AgentPolicy,
        state_dir: str,
        gpus: Mapping[str, Gpu],
        driver: DriverLimits | None = None,
    ) -> None:
        self._directory = directory
        self._policy = msgspec.structs.replace(policy, resource=_BY_CARD)
        self._state_dir = state_dir
        self._gpus = gpus
        self._driver = driver

    def write(self, uid: str, claim: PreparedClaim) -> list[str | None]:
        """Write a claim's file, and return the CDI device of each of its devices; None for one without limit.

        Raises:
            CdiError: the folder cannot be written.
        """
        path, shares = self._path(uid), [self._share(each) for each in claim.devices]
        devices = [self._edits(claim, share) if share is not None else {} for share in shares]
        written = [
            {"name": f"{uid}-{number}", "containerEdits": edits}
            for number, edits in enumerate(devices)
            if edits
        ]
        try:
            if self._driver is not None:
                self._driver.write(share for share in shares if share is not None)
            write_whole(path, specification(CLAIM_KIND, written or [_PREPARED]))
        except OSError as error:
            raise CdiError(f"{error.filename or path} cannot be written: {error.strerror}") from error
        return [f"{CLAIM_KIND}={uid}-{number}" if edits else None for number, edits in enumerate(devices)]

    def remove(self, uid: str) -> None:
        """Remove a claim's file, if it is there.

        Raises:
            CdiError: it cannot be removed.
        """
        path = self._path(uid)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CdiError(f"{path} cannot be removed: {error.strerror}") from error

    def keep_amounts(self, claims: Iterable[PreparedClaim]) -> None:
        """Remove the files of limits by the driver that none of these claims needs."""
        if self._driver is not None:
            self._driver.keep({mib for claim in claims for mib in claim.amounts if mib is not None})

    def remove_others(self, uids: Collection[str]) -> None:
        """Remove the files of all other claims.

        Raises:
            CdiError: one cannot be removed.
        """
        for uid in claims_with_files(self._directory) - set(uids):
            self.remove(uid)

    def _path(self, uid: str) -> Path:
        return self._directory / f"{CLAIM_FILE_PREFIX}{uid}.json"

    def _edits(self, claim: PreparedClaim, share: Share) -> dict[str, Any]:
        edits = edits_of(share, self._policy, self._state_dir, self._driver)
        if edits and len(claim.amounts) > 1:
            agreement = agreement_hook(share, self._policy)
            edits["hooks"] = [*agreement, *edits.get("hooks", [])]
        return {key: each for key, each in edits.items() if each}

    def _share(self, device: PreparedDevice) -> Share | None:
        """Return the share that a device is; None for a whole card, and for one that is gone."""
        gpu = self._gpus.get(device.gpu)
        if gpu is None or device.memory_mib is None:
            return None
        return device.share_of(gpu, self._policy.slices_per_gpu)


def claims_with_files(directory: Path) -> frozenset[str]:
    """Return the UIDs of the claims that have a CDI file in this folder."""
    names = (path.name for path in directory.glob(f"{CLAIM_FILE_PREFIX}*.json"))
    return frozenset(name.removeprefix(CLAIM_FILE_PREFIX).removesuffix(".json") for name in names)
