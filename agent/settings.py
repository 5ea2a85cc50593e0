"""What the driver's errors mean, and the part of one policy that a node needs."""

from __future__ import annotations

import msgspec

APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)
"""Errors of programs, not of GPUs; NVIDIA's device plugin ignores the same ones."""
_RESTART_APP = (8, 11, 60, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94, 139)
_IGNORE = (63, 66, 67, 92, 93, 106, 107, 141, 160, 161)
RECOVERY_CHANGED = 154
"""The Xid of a change in the recovery that the driver asks for."""
SURVIVED_XIDS = frozenset({*_RESTART_APP, *range(96, 106), *range(126, 136), *_IGNORE, RECOVERY_CHANGED})
"""Errors that a GPU survives: their immediate action in NVIDIA's Xid catalog is RESTART_APP or IGNORE.

https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""


NO_LIMITER = "none"
"""Name of a limiter that sets nothing."""


class LimiterPart(msgspec.Struct, frozen=True):
    """The part of a limiter that is set on the node."""

    name: str
    env: tuple[tuple[str, str], ...] = ()
    """Names and values, with placeholders as in policies."""
    preload: str | None = None
    """Path of the library in a container."""
    library_path: str | None = None
    """Folder in a container that holds it."""
    cache_path: str | None = None
    """Folder in a container for the library's own data."""
    cache_size: str | None = None


class AgentPolicy(msgspec.Struct, frozen=True):
    """The part of a policy that a node needs."""

    name: str
    mode: str
    resource: str
    """Resource name; in mode per-gpu it contains {index}."""
    slices_per_gpu: int
    reserve_mib: int
    limiter: LimiterPart
