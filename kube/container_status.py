"""Container statuses and conditions of a pod, as far as commands explain them."""

from __future__ import annotations

import msgspec


class StateReason(msgspec.Struct, rename="camel"):
    """Why a container waits, or how it ended."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0


class ContainerState(msgspec.Struct):
    """The state of a container; neither field is set while it runs."""

    waiting: StateReason | None = None
    terminated: StateReason | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    """The status of a container."""

    name: str = ""
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodCondition(msgspec.Struct):
    """A condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
