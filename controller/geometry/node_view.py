"""How a node is divided now, by its labels, annotations and resources. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from controller.geometry.model import Division
from controller.watch.mig_facts import MigNodeFact
from kube.names import GPU_COUNT_LABEL, GPU_PRODUCT_LABEL, label_number
from modes.facts import NodeFact
from modes.mig_profiles import MigCard

MAX_GPUS = 16
_CHANGE_MARK = ">"


def change_text(before: str, after: str) -> str:
    """Return the annotation of a change from one configuration to another."""
    return f"{before}{_CHANGE_MARK}{after}"


def ends_of(change: str | None) -> tuple[str, str]:
    """Return the configurations that a change begins with and leads to; empty texts without a change."""
    before, _, target = (change or "").rpartition(_CHANGE_MARK)
    return before, target


def view(
    fact: MigNodeFact, node: NodeFact, configs: Mapping[str, Division], *, is_empty: bool
) -> tuple[MigCard | None, Division | None, str | None]:
    """Read a node's cards and their division off its labels and its resources.

    A node that others have divided is taken as undivided once it `is_empty`: no pod on it holds a GPU or an
    instance. The division is None if it is unknown, so that no card can be divided; the last item is the
    reason for the admin, None if nothing needs to be done.
    """
    count = label_number(node.labels.get(GPU_COUNT_LABEL))
    if not node.product or count is None:
        return None, None, f"labels {GPU_PRODUCT_LABEL} and {GPU_COUNT_LABEL} are missing"
    card = node.mig_card
    if card is None:
        return None, None, f'nothing is known of how a "{node.product[:63]}" can be divided'
    ours = configs.get(fact.config)
    if ours is not None:
        is_whole = fact.state == "success" and resources(card, ours) == dict(fact.amounts)
        return card, ours if is_whole else None, None
    if fact.state in ("pending", "rebooting") or not 0 < count <= MAX_GPUS:
        return card, None, None
    if not is_empty:
        return card, None, "others have divided it, and pods use its GPUs: their end is awaited"
    return card, ((),) * count, None


def resources(card: MigCard, division: Division) -> dict[str, int]:
    """Return what a node with this division advertises: resource names and numbers of instances."""
    found: Counter[str] = Counter()
    for names in division:
        for name in names:
            profile = card.profile(name)
            found[profile.resource if profile is not None else name] += 1
    return dict(found)


def is_paused(divided_at: str | None, pause_seconds: float, now: float) -> bool:
    """Return whether a node is in the pause after a division, by its annotation, at `now` in Unix seconds.

    A time more than a pause away, in the future too, makes no pause.
    """
    try:
        at = datetime.fromisoformat(divided_at or "").timestamp()
    except (ValueError, OverflowError, OSError):
        return False
    return abs(now - at) < pause_seconds
