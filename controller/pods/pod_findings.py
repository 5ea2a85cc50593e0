"""What is known of a pod, and findings that are reported on it: it waits, or it drifted.

Deterministic and free of side effects. Drift is only reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from controller.watch.resources import InjectedPod, Owner, SeenPod
from kube.other_constraints import chosen_without
from ledger.free_nodes import FreeNodes
from ledger.why import NO_AGENT_WITH_ROOM, PodSummary, free_there, left_out, needs, way_out
from ledger.why_claim import ShareClaim, request_of, waiting_claim
from modes.facts import PodFact
from modes.fraction import MAX_CONTAINERS
from modes.resource_names import ResourceNames

Reason = Literal[
    "WaitingForSlices",
    "WaitingForCard",
    "FractionDrift",
    "WaitingForQuota",
    "QuotaHasRoom",
    "ShareIdle",
    "IdleShareWarning",
    "IdleShareKept",
    "IdleShareEvicted",
]


HAS_ROOM = "a node has room: the scheduler tries again, or has another reason, see kubectl describe pod"
NO_GPU = "no usable node has such GPUs: they are cordoned, not ready, missing or without their agent"
MAX_MESSAGE = 1024
"""Characters that Kubernetes accepts in an Event's message."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, reported once in a pod's life."""

    namespace: str
    pod: str
    uid: str
    reason: Reason
    message: str = ""
    """Empty if it is written when it is reported, because free slices change."""


def findings(pod: SeenPod) -> Iterator[Finding]:
    """Yield the findings of a pod as it is now."""
    fact, injected = pod.fact, pod.injected
    if injected is None or fact.is_over:
        return
    of = fact.namespace, fact.name, injected.uid
    if fact.quota_wait is not None:
        yield Finding(*of, "WaitingForQuota")
    if fact.node is None and injected.lacks_slices and fact.slices:
        yield Finding(*of, "WaitingForSlices")
    if fact.node is None and injected.lacks_cards:
        yield Finding(*of, "WaitingForCard")
    if why := drift(fact, injected):
        yield Finding(*of, "FractionDrift", why)


def drift(fact: PodFact, injected: InjectedPod) -> str | None:
    """Return how a labelled pod and its injection differ; None if they agree."""
    if injected.injected is None:
        return f"{injected.label} {injected.asked} has no effect: the pod was never injected"
    if injected.has_claim and not fact.slices:
        return None
    if injected.slices is not None and injected.slices != str(fact.slices):
        return f"the annotation says {injected.slices} slices, the pod's limits say {fact.slices}"
    indices = ",".join(str(index) for index, _ in fact.gpus)
    said = injected.gpu_index
    if said is not None and said != indices and not _names(said, fact):
        return f"the annotation says GPU {said}, the pod's limits say {indices or 'none'}"
    return None


def _names(index_text: str, fact: PodFact) -> bool:
    """Whether an annotation lists exactly the pod's GPUs; it may list one GPU for several containers."""
    named = index_text.split(",", MAX_CONTAINERS)
    return len(named) <= MAX_CONTAINERS and set(named) == {str(index) for index, _ in fact.gpus}


def waiting_message(  # noqa: PLR0913 - what is known of the pod, and of the nodes
    fact: PodFact,
    free: FreeNodes,
    names: ResourceNames,
    owner: Owner | None = None,
    not_considered: str = "",
    *,
    asks_model: bool | None = None,
) -> str | None:
    """Return what a waiting pod needs, what is free where it could go, and what would help.

    None if it does not wait for slices: no usable node has such GPUs (cordoned, not ready), or one has enough
    free, so the scheduler has another reason, which may be what was `not_considered` when it was placed.
    `asks_model`: whether it has the annotation for models; None if that is not known.
    """
    without = chosen_without(not_considered) if fact.gpus and not_considered else None
    if free.has_room or not (free.most or free.shut_out):
        return without if free.has_room else None
    parts = [without, f"needs {needs(fact, names, asks_model=asks_model)}"]
    if free.most:
        parts += [NO_AGENT_WITH_ROOM] if free.by_agent else []
        parts += [f"free now: {free_there(free)}", left_out(free), way_out(free, owner)]
    else:
        parts += [left_out(free), "change these if its manifest has them"]
    return "; ".join(filter(None, parts))[:MAX_MESSAGE]


def waiting_for_card(claim: ShareClaim) -> str | None:
    """Return what a claim asks for, and what is free of such cards.

    None if it does not wait for a card: it holds one, a node has room, so the scheduler has another reason,
    or its cards are not known.
    """
    if claim.state != "waiting" or claim.room is None or claim.room.has_room or claim.asked is None:
        return None
    # A waiting claim needs no new pod, so no sentence says how to replace it.
    return " ".join([f"needs {request_of(claim)}.", *waiting_claim(claim, "")])[:MAX_MESSAGE]


def summary_of(pod: SeenPod, free: FreeNodes | None) -> PodSummary:
    """Return what the controller knows of a pod; `free`, the nodes with free slices, is None if unknown."""
    injected = pod.injected
    if injected is None:
        return PodSummary(fact=pod.fact, free=free)
    return PodSummary(
        fact=pod.fact,
        asked=injected.asked,
        label=injected.label,
        policy=injected.injected.partition("@")[0] if injected.injected is not None else None,
        by_agent=pod.is_limited_by_agent,
        owner=injected.owner,
        drift=drift(pod.fact, injected) if injected.injected is not None else None,
        lacks_slices=injected.lacks_slices,
        free=free,
    )
