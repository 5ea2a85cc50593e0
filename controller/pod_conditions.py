"""What is worth telling about a pod, on the pod: that it waits, that it went elsewhere, that it drifted.

Deterministic and free of side effects. Drift is reported, never punished.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from controller.free_nodes import FreeNodes
from controller.resources import InjectedPod, Owner, SeenPod
from kube.names import FRACTION_LABEL
from ledger.facts import PodFact
from modes.resource_names import ResourceNames

Reason = Literal["WaitingForSlices", "PlacedElsewhere", "FractionDrift", "WaitingPodReplaced"]


MAX_MESSAGE = 1024
"""Characters that Kubernetes takes of an Event's message."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to tell, once in a pod's life."""

    namespace: str
    pod: str
    uid: str
    reason: Reason
    message: str = ""
    """Empty where it is made at the time of telling: what is free changes."""


def findings(before: SeenPod | None, after: SeenPod) -> Iterator[Finding]:
    """Give what a change of a pod shows; `before` is None for one that was not known."""
    fact, injected = after.fact, after.injected
    if injected is None or fact.is_over:
        return
    if fact.node is None and injected.lacks_slices and fact.slices:
        yield _finding(after, injected, "WaitingForSlices", "")
    preferred = injected.preferred_node
    was_free = before is not None and before.fact.node is None
    if was_free and fact.node and preferred and fact.node != preferred:
        message = f"bound to {fact.node}; the fraction ledger had preferred {preferred}"
        yield _finding(after, injected, "PlacedElsewhere", message)
    if why := drift(fact, injected):
        yield _finding(after, injected, "FractionDrift", why)


def drift(fact: PodFact, injected: InjectedPod) -> str | None:
    """Say where a labelled pod and its injection differ; None where they agree."""
    if injected.injected is None:
        return f"{FRACTION_LABEL} {injected.fraction} has no effect: the pod was never injected"
    if injected.slices is not None and injected.slices != str(fact.slices):
        return f"the annotation says {injected.slices} slices, the pod's limits say {fact.slices}"
    indices = ",".join(str(index) for index, _ in fact.gpus)
    if injected.gpu_index is not None and injected.gpu_index != indices:
        return f"the annotation says GPU {injected.gpu_index}, the pod's limits say {indices or 'none'}"
    return None


def waiting_message(
    fact: PodFact, free: FreeNodes, names: ResourceNames, owner: Owner | None = None
) -> str | None:
    """Say what a waiting pod needs, what is free where it could go, and what would help.

    None where it does not wait for slices: no usable node has such GPUs (cordoned, not ready), or one has as
    many left, so that the scheduler has another reason.
    """
    most = max([slices for _, slices in fact.gpus], default=fact.pooled)
    if not free.most or free.most[0][1] >= most:
        return None
    needs = [f"{slices} of {names.per_gpu_prefix}{index}" for index, slices in fact.gpus]
    if fact.pooled:
        needs.append(f"{fact.pooled} of {names.pooled[0]}")
    named = ", ".join(f"{name} {slices}" for name, slices in free.most)
    more = f" and {free.others} more nodes" if free.others else ""
    memory = f" of {' or '.join(fact.memory_values)} MiB" if fact.memory_values else ""
    model = f" and model {fact.model}, as sameModel or its own affinity demands" if fact.model else ""
    what = f"needs slices {' and '.join(needs)}{memory}{model}; free there: {named}{more}"
    return f"{what}; {_help(free, owner)}"[:MAX_MESSAGE]


def _help(free: FreeNodes, owner: Owner | None) -> str:
    if free.elsewhere is None:
        return "it starts when pods there end"
    node, index, slices = free.elsewhere
    return f"GPU {index} of {node} has {slices} free: {_creation(owner)} to use it"


def _creation(owner: Owner | None) -> str:
    """How to get another pod in place of one. A Job's deleted pod counts as failed, and may fail the Job."""
    if owner is None:
        return "delete the pod and create it again"
    if owner.kind == "Job":
        return f"delete Job {owner.name} and create it again"
    return f"delete the pod, so that {owner.kind} {owner.name} creates another"


def _finding(pod: SeenPod, injected: InjectedPod, reason: Reason, message: str) -> Finding:
    return Finding(pod.fact.namespace, pod.fact.name, injected.uid, reason, message)
