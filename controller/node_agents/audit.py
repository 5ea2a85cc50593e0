"""The kubelet's books against the ledger: what differs, and what of it lasts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ledger.view import NodeView

LOOKS = 3
"""After so many looks with the same result a difference is no matter of time."""
Held = tuple[tuple[int, int, int], ...]


class Difference(msgspec.Struct, frozen=True):
    """One GPU, or the pool of a node, of which kubelet and ledger say different things."""

    node: str
    index: int | None
    """None for the pool."""
    kubelet: int
    """Slices that containers hold."""
    pods: int
    """Of these containers."""
    ledger: int
    """Slices of the pods that are bound to the node."""

    @property
    def key(self) -> tuple[str, int | None]:
        """Which GPU it is."""
        return self.node, self.index

    @property
    def text(self) -> str:
        """What an admin reads."""
        what = f"GPU {self.index}" if self.index is not None else "the pool"
        return (
            f"{what}: {self.pods} pods hold {self.kubelet} slices by the kubelet's books, the ledger has"
            f" {self.ledger}: compare kubectl get gpuledger {self.node} -o yaml with the pods on the node"
        )


def differences(view: NodeView, held: Held, finished: Mapping[int | None, int]) -> list[Difference]:
    """Return what differs of a node's GPUs with slices on offer; without a plugin nobody's books are good.

    Args:
        view: of the node, by the ledger.
        held: (index, slices, pods) by the kubelet.
        finished: slices of pods that have ended but are still there: some kubelets list them on.
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
    """Remembers for how many looks each difference has been the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None], tuple[int, int]] = {}

    def lasting(self, found: Iterable[Difference]) -> list[Difference]:
        """Take one look in; return what has been off by as much in each of the last looks."""
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
