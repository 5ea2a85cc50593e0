"""How a node is divided now, by its labels, annotations and resources. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from controller.geometry.model import Division
from controller.watch.mig_facts import MigNodeFact
from kube.names import GPU_COUNT_LABEL, GPU_PRODUCT_LABEL, label_number
from modes.mig_profiles import MigCard, card_of_product

MAX_GPUS = 16
_CHANGE_MARK = ">"


@dataclass(frozen=True, slots=True)
class NodeDivision:
    """The division of one node, as far as it is known."""

    card: MigCard | None
    division: Division | None
    """How it is divided; None if unknown, so that no card can be divided."""
    problem: str | None = None
    """Why the division is unknown, for the admin; None if nothing needs to be done."""


def change_text(before: str, after: str) -> str:
    """Return the annotation of a change from one configuration to another."""
    return f"{before}{_CHANGE_MARK}{after}"


def ends_of(change: str | None) -> tuple[str, str]:
    """Return the configurations that a change begins with and leads to; empty texts without a change."""
    before, _, target = (change or "").rpartition(_CHANGE_MARK)
    return before, target


def view(
    fact: MigNodeFact, labels: Mapping[str, str], configs: Mapping[str, Division], *, is_empty: bool
) -> NodeDivision:
    """Read a node's division off its labels and its resources.

    A node that others have divided is taken as undivided once it `is_empty`: no pod on it holds a GPU or an
    instance.
    """
    product, count = labels.get(GPU_PRODUCT_LABEL), label_number(labels.get(GPU_COUNT_LABEL))
    if product is None or count is None:
        return NodeDivision(
            None, None, problem=f"labels {GPU_PRODUCT_LABEL} and {GPU_COUNT_LABEL} are missing"
        )
    card = card_of_product(product)
    if card is None:
        return NodeDivision(None, None, problem=f'nothing is known of how a "{product[:63]}" can be divided')
    ours = configs.get(fact.config)
    if ours is not None:
        is_whole = fact.state == "success" and resources(card, ours) == dict(fact.amounts)
        return NodeDivision(card, ours if is_whole else None)
    if fact.state in ("pending", "rebooting") or not 0 < count <= MAX_GPUS:
        return NodeDivision(card, None)
    if not is_empty:
        return NodeDivision(card, None, "others have divided it, and pods use its GPUs: their end is awaited")
    return NodeDivision(card, ((),) * count)


def resources(card: MigCard, division: Division) -> dict[str, int]:
    """Return what a node with this division advertises: resource names and numbers of instances."""
    found: Counter[str] = Counter()
    for names in division:
        for name in names:
            profile = card.profile(name)
            found[profile.resource if profile is not None else name] += 1
    return dict(found)


def time_text(seconds: float) -> str:
    """Return Unix seconds in the format of Kubernetes timestamps."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pause_end(divided_at: str | None, pause_seconds: float, now: float) -> str | None:
    """Return when a node's pause after a division ends; None without a pause.

    Args:
        divided_at: its annotation. A time more than a pause away, in the future too, makes no pause.
        pause_seconds: length of a pause.
        now: Unix seconds.
    """
    try:
        at = datetime.fromisoformat(divided_at or "").timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return time_text(at + pause_seconds) if abs(now - at) < pause_seconds else None
