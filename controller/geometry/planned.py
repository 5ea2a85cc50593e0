"""Planned changes, until their node is cordoned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from controller.geometry.mig_config import Division, config_name
from controller.geometry.model import Change, MigNode
from controller.watch.resources import SeenPod


class PlannedChanges:
    """The planned changes of each node, which together are one division of it."""

    def __init__(self) -> None:
        self._changes: dict[str, tuple[Change, ...]] = {}

    def add(self, changes: Iterable[Change]) -> None:
        """Plan changes, for nodes that have none planned."""
        for change in changes:
            self._changes[change.node] = (*self._changes.get(change.node, ()), change)

    def drop(self, node: str) -> None:
        """Drop the plan for a node."""
        self._changes.pop(node, None)

    def keep(self, known: Mapping[str, MigNode], waiting: Mapping[str, SeenPod]) -> None:
        """Drop changes for pods that are gone or no longer fit, and of cards that are no longer idle."""
        self._changes = {
            name: changes
            for name, changes in self._changes.items()
            if (node := known.get(name)) is not None
            and any(_fits(node, waiting.get(change.uid)) for change in changes)
            and (node.is_changing or {change.card for change in changes} <= set(node.idle))
        }

    def applied_to(self, node: MigNode) -> MigNode:
        """Return a node with its planned changes applied."""
        changes = self._changes.get(node.name)
        if changes is None or node.is_changing:
            return node
        return replace(node, geometries=_divided(node, changes), is_changing=True)

    def wanted(self, known: Mapping[str, MigNode]) -> dict[str, tuple[str, Division]]:
        """Return the configuration that each node's plan leads to, as name and content."""
        divisions = {
            name: known[name].geometries if known[name].is_changing else _divided(known[name], changes)
            for name, changes in self._changes.items()
        }
        return {name: (config_name(name, division), division) for name, division in divisions.items()}


def _fits(node: MigNode, pod: SeenPod | None) -> bool:
    """Whether a pod still waits, and still fits a node's CPU and memory."""
    if pod is None:
        return False
    return pod.fact.cpu_milli <= node.cpu_free and pod.fact.memory_bytes <= node.memory_free


def _divided(node: MigNode, changes: Iterable[Change]) -> Division:
    cards = list(node.geometries)
    for change in changes:
        cards[change.card] = change.geometry
    return tuple(cards)
