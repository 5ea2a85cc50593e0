"""Input and output of the planner: nodes with divisible cards, requests, and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from modes.facts import UNLIMITED, PodKey
from modes.mig_geometry import Geometry
from modes.mig_profiles import MigCard

Amounts = tuple[tuple[str, int], ...]
"""Profiles and numbers of instances, sorted by profile."""


@dataclass(frozen=True, slots=True)
class MigRequest:
    """A pod that waits for instances."""

    key: PodKey
    wants: Amounts
    since: str = ""
    """When it was created, as the API writes it: older requests are served first."""
    nodes: frozenset[str] | None = None
    """Nodes that it may run on; None for all."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    uid: str = ""
    """UID of the pod: a new pod may have the same name."""


@dataclass(frozen=True, slots=True)
class MigNode:
    """A node whose cards may be divided. All its cards are of one model."""

    name: str
    card: MigCard
    geometries: tuple[Geometry, ...]
    """The current geometry of each card, or the one after the change in progress."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Instances of each profile that pods on this node hold; on which card is unknown."""
    is_changing: bool = False
    """A change is in progress, or must not start now."""
    paused_until: float | None = None
    """End of the pause after a division, by the caller's clock: until then, only undivided cards change. None
    without a pause."""
    cpu_free: int = UNLIMITED
    """Milli-CPU that no pod on it holds."""
    memory_free: int = UNLIMITED
    """Bytes that no pod on it holds."""

    @property
    def total(self) -> Counter[str]:
        """Number of instances of each profile."""
        return Counter(name for each in self.geometries for name in each)

    @property
    def idle(self) -> tuple[int, ...]:
        """Cards that certainly have no instance in use: no pod holds a profile that the card has."""
        return tuple(
            index
            for index, names in enumerate(self.geometries)
            if not any(self.held.get(name, 0) for name in names)
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One card of a node gets a new division. Other cards of the node stay as they are."""

    node: str
    card: int
    geometry: Geometry
    request: PodKey
    """The request that needs it."""
    uid: str = ""
    """UID of the request's pod."""


class UnservedReason(StrEnum):
    """Why no card is divided for a request now."""

    NO_ROOM = "no-room"
    """No node that it may run on has enough CPU and memory for it."""
    PAUSED = "paused"
    """A node that could be divided for it was divided recently."""
    NOT_ITS_TURN = "not-its-turn"
    """Earlier requests get what could be divided for it."""
    IN_USE = "in-use"
    """Too many cards have an instance in use."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """Why no card is divided for a request now, and where."""

    reason: UnservedReason
    node: MigNode | None = None
    """The paused node that can be divided first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes to start, and the result for the other requests."""

    changes: tuple[Change, ...] = ()
    """At most one per card; those of one node are one division."""
    set_aside: Mapping[PodKey, str] = field(default_factory=dict)
    """Requests that have free instances on a node that is not changing: the scheduler will place them."""
    unserved: Mapping[PodKey, Unserved] = field(default_factory=dict)
    unreached: frozenset[str] = frozenset()
    """Namespaces whose requests were not looked at, because the steps were used up."""


class Steps:
    """Counts the steps of a search, which pod authors can make long, and limits them."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, steps: int = 1) -> None:
        """Count some steps of the search."""
        self.left -= steps

    @property
    def is_over(self) -> bool:
        """Whether the search has used all its steps."""
        return self.left <= 0
