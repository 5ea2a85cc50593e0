"""Our CDI specifications, which limit a share.

A runtime applies a CDI device after the pod's own environment and mounts, so a pod cannot override it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.driver_limits import DriverLimits
from agent.files import UNREADABLE, write_whole
from agent.gpu import Gpu
from agent.limits import mounts, variables
from agent.settings import AgentPolicy
from agent.shares import RefusedError, Share, memory_mib
from modes.fraction import ALLOWED_SLICES_PER_GPU

KIND = "clearml-injector.io/slices"
FILE_PREFIX = "clearml-injector.io-slices-"
CLAIM_KIND = "clearml-injector.io/claim"
CLAIM_FILE_PREFIX = "clearml-injector.io-claim-"
"""Of the specifications that `agent.dra` writes, one for each claim."""
_VERSION = "0.5.0"


class CdiError(Exception):
    """A card has no CDI device, or ours cannot be written; the text says what to do."""


class SliceSpecifications:
    """Our specifications in a folder: one file for each card, with a device for each number of slices."""

    def __init__(
        self, directory: Path, policy: AgentPolicy, state_dir: str, driver: DriverLimits | None = None
    ) -> None:
        self._directory = directory
        self._policy = policy
        self._state_dir = state_dir
        self._driver = driver

    def write(self, gpu: Gpu) -> None:
        """Write a card's file, if its content differs; it keeps the devices of earlier policies' containers.

        Raises:
            CdiError: the folder cannot be written.
        """
        path = self._path(gpu.uuid)
        devices = {device["name"]: device for device in [*_old_devices(path), *self._devices(gpu)]}
        try:
            if self._driver is not None:
                self._driver.write(share for share, _ in self._shares(gpu))
            if devices:
                write_whole(path, specification(KIND, list(devices.values())))
        except OSError as error:
            raise CdiError(f"{error.filename or path} cannot be written: {error.strerror}") from error

    def name_of(self, share: Share) -> str | None:
        """Return the device that limits a share; None if the policy has no limiter.

        Raises:
            CdiError: its file is gone, and cannot be written again.
        """
        if not edits_of(share, self._policy, self._state_dir, self._driver):
            return None
        if not self._path(share.gpu.uuid).is_file():
            self.write(share.gpu)
        return f"{KIND}={_name(share, self._policy)}"

    def _path(self, uuid: str) -> Path:
        return self._directory / f"{FILE_PREFIX}{uuid}.json"

    def _devices(self, gpu: Gpu) -> Iterator[dict[str, Any]]:
        for share, policy in self._shares(gpu):
            # An empty device would make a runtime refuse the whole file.
            if edits := edits_of(share, policy, self._state_dir, self._driver):
                yield {"name": _name(share, policy), "containerEdits": edits}

    def _shares(self, gpu: Gpu) -> Iterator[tuple[Share, AgentPolicy]]:
        # A container may hold slices from before the policy changed, and a reboot may empty the folder.
        for size in ALLOWED_SLICES_PER_GPU:
            policy = msgspec.structs.replace(self._policy, slices_per_gpu=size)
            for slices in range(1, size):
                with contextlib.suppress(RefusedError):  # Allocate refuses it too
                    yield Share(gpu, slices, memory_mib(gpu, slices, size, policy.reserve_mib)), policy


def edits_of(
    share: Share, policy: AgentPolicy, state_dir: str, driver: DriverLimits | None
) -> dict[str, Any]:
    """Return the CDI edits that limit a container to a share; none for a whole GPU, or without a limiter."""
    env = [f"{name}={value}" for name, value in variables(share, policy).items()]
    hooks = driver.hooks(share) if driver is not None else []
    edits = {"env": env, "mounts": mounts(share, policy.limiter, state_dir), "hooks": hooks}
    return {key: each for key, each in edits.items() if each}


def specification(kind: str, devices: Sequence[dict[str, Any]]) -> bytes:
    """Return a CDI specification file with these devices."""
    content = {"cdiVersion": _VERSION, "kind": kind, "devices": devices}
    return msgspec.json.format(msgspec.json.encode(content), indent=1)


def _name(share: Share, policy: AgentPolicy) -> str:
    # A container that restarts gets the same name again: two of eight slices must not become two of four when
    # the policy changes.
    return f"{share.gpu.uuid}-{share.slices}-of-{policy.slices_per_gpu}"


def _old_devices(path: Path) -> list[dict[str, Any]]:
    try:
        content = msgspec.json.decode(path.read_bytes())
        return [device for device in content["devices"] if isinstance(device.get("name"), str)]
    except (*UNREADABLE, KeyError, TypeError, AttributeError):
        return []
