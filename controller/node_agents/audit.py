"""Compares the kubelet's allocations with the ledger, and finds lasting differences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ledger.view import NodeView

LOOKS = 3
"""Number of equal checks in a row after which a difference is not just a delay."""
Held = tuple[tuple[int, int, int], ...]


class Difference(msgspec.Struct, frozen=True):
    """One GPU, or the pool of a node, for which kubelet and ledger differ."""

    node: str
    index: int | None
    """None for the pool."""
    kubelet: int
    """Slices that containers hold."""
    pods: int
    """Pods of these containers."""
    ledger: int
    """Slices of the pods that are bound to the node."""

    @property
    def key(self) -> tuple[str, int | None]:
        """Node and index of the GPU, to recognise the difference."""
        return self.node, self.index

    @property
    def text(self) -> str:
        """Message for an admin."""
        what = f"GPU {self.index}" if self.index is not None else "the pool"
        return (
            f"{what}: the kubelet counts {self.kubelet} slices of {self.pods} pods, the ledger counts"
            f" {self.ledger}: compare kubectl get gpuledger {self.node} -o yaml with the pods on the node"
        )


def differences(view: NodeView, held: Held, finished: Mapping[int | None, int]) -> list[Difference]:
    """Return the differences of a node's GPUs; GPUs without slices are skipped, as their plugin is away.

    Args:
        view: view of the node in the ledger.
        held: (index, slices, pods) by the kubelet.
        finished: slices of pods that have ended but still exist: some kubelets still list them.
    """
    by_index: dict[int | None, tuple[int, int]] = {index: (slices, pods) for index, slices, pods in held}
    by_index[None] = sum(slices for _, slices, _ in held), sum(pods for *_, pods in held)
    found = []
    for gpu in view.gpus:
        ledger = gpu.held
        slices, pods = by_index.get(gpu.index, (ledger, 0))
        if gpu.capacity and not ledger <= slices <= ledger + finished.get(gpu.index, 0):
            found.append(Difference(view.name, gpu.index, slices, pods, ledger))
    return found


class Looks:
    """Counts for how many checks each difference has been the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None], tuple[int, int]] = {}

    def lasting(self, found: Iterable[Difference]) -> list[Difference]:
        """Add the result of one check; return the differences that were the same in the last LOOKS checks."""
        now: dict[tuple[str, int | None], tuple[int, int]] = {}
        lasting = []
        for each in found:
            by = each.kubelet - each.ledger
            before, looks = self._seen.get(each.key, (by, 0))
            now[each.key] = by, looks + 1 if before == by else 1
            if now[each.key][1] >= LOOKS:
                lasting.append(each)
        self._seen = now
        return lasting
