"""What the planner is told and what it answers: nodes with cards to divide, requests, changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ledger.facts import PodKey
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
