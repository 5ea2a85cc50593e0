"""How a node is divided now, and what a change in progress needs next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from controller.geometry.model import Division
from controller.watch.mig_facts import MigNodeFact
from kube.names import GPU_COUNT_LABEL, GPU_PRODUCT_LABEL, MIG_CONFIG_LABEL, label_number
from modes.mig_geometry import geometries, geometry
from modes.mig_profiles import MigCard, card_of_product

MAX_GPUS = 16
_CHANGE_MARK = ">"
_UNEQUAL = f"its cards are divided differently, by others: set {MIG_CONFIG_LABEL}=all-disabled to begin"


class Action(StrEnum):
    """What a node that is cordoned for a change needs next."""

    ASK = "ask"
    """Check that the card is still idle, and set the label."""
    WAIT = "wait"
    """The MIG manager is working, or the device plugin has not reported the instances yet."""
    FINISH = "finish"
    """It is done: uncordon the node."""
    FAIL = "fail"
    """The MIG manager failed: uncordon the node, and retry later."""
    ABANDON = "abandon"
    """Somebody else has changed the node: uncordon it."""


@dataclass(frozen=True, slots=True)
class NodeDivision:
    """The division of one node, as far as it is known."""

    card: MigCard | None
    division: Division | None
    """How it is divided; None if unknown, so that no card can be divided."""
    cards: int = 1
    """Number of its cards."""
    problem: str | None = None
    """Why the division is unknown, for the admin; None if nothing needs to be done."""


def change_text(before: str, after: str) -> str:
    """Return the annotation of a change from one configuration to another."""
    return f"{before}{_CHANGE_MARK}{after}"


def target_of(change: str) -> str:
    """Return the configuration that a change leads to."""
    return change.rpartition(_CHANGE_MARK)[2]


def view(
    fact: MigNodeFact, labels: Mapping[str, str], configs: Mapping[str, Division], *, is_empty: bool
) -> NodeDivision:
    """Read a node's division off its labels and its resources.

    Args:
        fact: What was seen of it.
        labels: Its labels.
        configs: Our configurations, by name.
        is_empty: No pod on it holds a GPU or an instance.
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
        return NodeDivision(card, ours if is_whole else None, len(ours))
    if fact.state in ("pending", "rebooting") or not 0 < count <= MAX_GPUS:
        return NodeDivision(card, None, min(count, MAX_GPUS))
    return _foreign(card, count, dict(fact.amounts), is_empty=is_empty)


def _foreign(card: MigCard, count: int, amounts: Mapping[str, int], *, is_empty: bool) -> NodeDivision:
    """A node with somebody else's configuration: known if it is empty, or all its cards are alike."""
    each: Counter[str] = Counter()
    for resource, amount in amounts.items():
        profile = card.profile(resource)
        if profile is None:
            return NodeDivision(card, None, count, f'"{resource}" is none of the profiles known of this card')
        if amount % count:
            return NodeDivision(card, None, count, _UNEQUAL)
        each[profile.name] = min(amount // count, card.memory + 1)
    names = geometry(each.elements())
    if names not in geometries(card):
        return NodeDivision(card, None, count, _UNEQUAL)
    if not names and not is_empty:
        return NodeDivision(card, None, count, "pods hold its undivided cards: their end is awaited")
    return NodeDivision(card, (names,) * count, count)


def resources(card: MigCard, division: Division) -> dict[str, int]:
    """Return what a node with this division advertises: resource names and numbers of instances."""
    found: Counter[str] = Counter()
    for names in division:
        for name in names:
            profile = card.profile(name)
            found[profile.resource if profile is not None else name] += 1
    return dict(found)


def next_action(fact: MigNodeFact, card: MigCard | None, configs: Mapping[str, Division]) -> Action | None:
    """Return what a cordoned node needs next; None if we have not cordoned it.

    It only reads the node and the ConfigMap, so a new controller can continue.
    """
    if fact.change is None:
        return None
    before, _, target = fact.change.rpartition(_CHANGE_MARK)
    division = configs.get(target)
    if not fact.is_ours or division is None or card is None or fact.config not in (before, target):
        return Action.ABANDON
    if fact.config == before:
        return Action.ASK
    if fact.state == "failed":
        return Action.FAIL
    is_whole = fact.state == "success" and resources(card, division) == dict(fact.amounts)
    return Action.FINISH if is_whole else Action.WAIT


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
