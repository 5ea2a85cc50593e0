"""What the planner is told and what it answers: nodes with cards to divide, requests, changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.facts import UNLIMITED, PodKey
from modes.mig_geometry import Geometry
from modes.mig_profiles import MigCard

Amounts = tuple[tuple[str, int], ...]
"""Names of profiles and numbers of instances, by name."""


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
    """Of the pod: another one may come by the same name."""


@dataclass(frozen=True, slots=True)
class MigNode:
    """A node whose cards may be divided. All its cards are of one model."""

    name: str
    card: MigCard
    geometries: tuple[Geometry, ...]
    """What each card is divided into at this moment, or will be once the change under way is done."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Instances of each profile that pods on this node hold. Which card they lie on is not known."""
    is_changing: bool = False
    """A change is under way, or must not begin now."""
    paused_until: float | None = None
    """It was divided a short while ago: until then, by the caller's clock, only cards change that are not
    divided at all. None where all may."""
    cpu_free: int = UNLIMITED
    """Milli-CPU that no pod on it holds."""
    memory_free: int = UNLIMITED
    """Bytes that no pod on it holds."""

    @property
    def total(self) -> Counter[str]:
        """Instances of each profile."""
        return Counter(name for each in self.geometries for name in each)

    @property
    def idle(self) -> tuple[int, ...]:
        """Cards that certainly have no instance in use: no pod holds any profile that the card has."""
        return tuple(
            index
            for index, names in enumerate(self.geometries)
            if not any(self.held.get(name, 0) for name in names)
        )


@dataclass(frozen=True, slots=True)
class Change:
    """Divide one card of a node again. Other cards of the node stay as they are."""

    node: str
    card: int
    geometry: Geometry
    request: PodKey
    """The request that this is done for."""
    uid: str = ""
    """Of its pod."""


class UnservedReason(StrEnum):
    """Why no card is divided for a request now."""

    NO_ROOM = "no-room"
    """No node that it may run on has CPU and memory for it."""
    PAUSED = "paused"
    """A node that could be divided for it was divided a short while ago."""
    NOT_ITS_TURN = "not-its-turn"
    """What could be divided for it goes to requests before it."""
    IN_USE = "in-use"
    """Too many cards have an instance in use."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """Why no card is divided for a request now, and where."""

    reason: UnservedReason
    node: MigNode | None = None
    """The paused one that can be divided first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to begin, and what is to become of the other requests."""

    changes: tuple[Change, ...] = ()
    """One for a card at most; those of one node are one division."""
    set_aside: Mapping[PodKey, str] = field(default_factory=dict)
    """Requests for which instances are free on a node that is not changing: the scheduler's turn."""
    unserved: Mapping[PodKey, Unserved] = field(default_factory=dict)
    unreached: frozenset[str] = frozenset()
    """Namespaces of requests of which none was looked at, as the work was over."""


class Steps:
    """Counts the steps of what pods' authors can make long, so that it ends."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, steps: int = 1) -> None:
        """Count some steps."""
        self.left -= steps

    @property
    def is_over(self) -> bool:
        """Whether nothing more should be begun."""
        return self.left <= 0
