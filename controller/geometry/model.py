"""Input and output of the planner: nodes with divisible cards, waiting pods, and divisions to begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.watch.mig_facts import MigPod
from kube.scheduling import Taint
from modes.facts import UNLIMITED, PodFact
from modes.mig_geometry import Geometry
from modes.mig_profiles import MigCard

Amounts = tuple[tuple[str, int], ...]
"""Profiles and numbers of instances, sorted by profile."""
Division = tuple[Geometry, ...]
"""Geometry of each card of a node, by index."""


class MigRequest(NamedTuple):
    """A pod that waits for instances."""

    pod: PodFact
    mig: MigPod

    @property
    def shape(self) -> tuple[object, ...]:
        """All that decides where it can run: pods of one shape can run on the same nodes."""
        return self.mig.wants, self.mig.digest, self.pod.cpu_milli, self.pod.memory_bytes


@dataclass(frozen=True, slots=True)
class MigNode:
    """A node whose cards may be divided. All its cards are of one model."""

    name: str
    card: MigCard
    division: Division
    """The current division, or the one after the change in progress."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Instances of each profile that pods on this node hold; on which card is unknown."""
    is_changing: bool = False
    """A change is planned or in progress."""
    is_paused: bool = False
    """Whether it was just divided: only undivided cards change."""
    cpu_free: int = UNLIMITED
    """Milli-CPU that no pod on it holds."""
    memory_free: int = UNLIMITED
    """Bytes that no pod on it holds."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def idle(self) -> frozenset[int]:
        """Cards that certainly have no instance in use: no pod holds a profile that the card has.

        None is if a pod holds a profile that no card has: the node is not divided as it seems.
        """
        held = {name for name, count in self.held.items() if count}
        if not held <= {name for names in self.division for name in names}:
            return frozenset()
        return frozenset(index for index, names in enumerate(self.division) if held.isdisjoint(names))

    def has_room(self, pod: PodFact, cpu_taken: int = 0, memory_taken: int = 0) -> bool:
        """Whether it has the pod's CPU and memory free, apart from what is taken."""
        return (
            pod.cpu_milli <= self.cpu_free - cpu_taken and pod.memory_bytes <= self.memory_free - memory_taken
        )

    def is_idle_for(self, division: Division) -> bool:
        """Whether every card that another division changes certainly has no instance in use."""
        if len(division) != len(self.division):
            return False
        pairs = enumerate(zip(self.division, division, strict=True))
        return {index for index, (before, after) in pairs if before != after} <= self.idle


class NewDivision(NamedTuple):
    """A division of a node to begin."""

    division: Division
    pods: frozenset[str]
    """UIDs of the pods that it is for."""


class Plan(NamedTuple):
    """What to do for the waiting pods."""

    divisions: Mapping[str, NewDivision]
    """Divisions to begin, by node."""
    unserved: Mapping[str, str]
    """Why no card is divided for a pod now, by UID in the order of their turns."""
