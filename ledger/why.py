"""Why a pod is where it is: what it asked, what happened, what it waits for, and what would help, in words.

The text is made of what a caller could read: the page and the Events from the controller's books,
`fraction-injector why` from the API with the rights of whoever asks. Names and texts of others are quoted as
they are, cut to a length: whoever shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from kube.names import FRACTION_LABEL
from ledger.facts import PodFact
from ledger.free_nodes import MAX_NODES_NAMED, FreeNodes
from ledger.instance_worth import pool_profile
from modes.mig_instances import instance_resource, is_instance
from modes.resource_names import ResourceNames

MAX_QUOTED = 400
"""Characters of a text that somebody else wrote."""
_INSTANCES = "MIG instances"
OWN_DEMANDS = "nodeSelector, affinity or tolerations"
TOO_LONG = f"its own {OWN_DEMANDS} are too long to be compared with all nodes that have such GPUs"
NO_AGENT_WITH_ROOM = "no node with a running agent has room"


class Creator(Protocol):
    """The controller that made a pod, and would make another."""

    @property
    def kind(self) -> str: ...  # noqa: D102 - the words are those of an owner reference
    @property
    def name(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that a scheduler starts together or not at all."""

    name: str
    bound: int
    """Of its pods, how many have a node."""
    waiting: int
    """How many have none, the one that was asked for among them."""
    count_is_known: bool = True
    """Whether its pods could be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    """What is known of one pod by whoever could read it; what could not be read is left out."""

    fact: PodFact
    asked: str | None = None
    """Text of its label; None where it has none."""
    label: str = FRACTION_LABEL
    """By which of the labels it asks."""
    policy: str | None = None
    """Name of the policy that it was injected by; None where it never was."""
    memory_mib: str | None = None
    """MiB that it was given, by its annotation."""
    owner: Creator | None = None
    drift: str | None = None
    """How the pod differs from its own annotations."""
    phase: str = "Pending"
    waited_seconds: float | None = None
    """Since its creation, where that is known."""
    is_terminating: bool = False
    gates: tuple[str, ...] = ()
    """Scheduling gates that are still closed."""
    scheduler_says: str | None = None
    """Why the scheduler could not place it when it last tried; None where it has not tried."""
    lacks_slices: bool = False
    """The scheduler names slices among what nodes lack."""
    trouble: str | None = None
    """Why its containers do not run, though it has a node: reason and message."""
    free: FreeNodes | None = None
    """Where slices are free for it; None where nobody could tell."""
    replaced_after: str | None = None
    """Its policy's `replaceWaiting.after`, where the policy says one."""
    division: str | None = None
    """Why no card is divided for it, as the controller's last Event on it says."""
    dividing: tuple[str, ...] = ()
    """Nodes that it could go to and whose cards are being divided now."""
    group: PodGroup | None = None
    """What it starts together with."""


def why(pod: PodSummary, names: ResourceNames | None = None) -> str:
    """Return one paragraph, in one line, on a pod that exists."""
    return " ".join(filter(None, _sentences(pod, names or ResourceNames())))


def needs(fact: PodFact, names: ResourceNames) -> str:
    """Say which slices of which memory and model a pod needs, or which MIG instances."""
    each = [f"{slices} of {_resource(index, names)}" for index, slices in fact.gpus]
    if fact.pooled:
        each.append(f"{fact.pooled} of {names.pooled[0]}")
    if _of(fact) == _INSTANCES:
        models = f" on {quoted(' or '.join(fact.models))}" if fact.models else ""
        return f"{_INSTANCES}, {' and '.join(each)}{models}"
    memory = f" of {' or '.join(fact.memory_values)} MiB" if fact.memory_values else ""
    model = f" and model {fact.model}, as sameModel or its own affinity demands" if fact.model else ""
    return f"slices {' and '.join(each)}{memory}{model}"


def asks_for_instances(fact: PodFact) -> bool:
    """Whether a pod asks for MIG instances."""
    has_instances = bool(fact.gpus) and is_instance(fact.gpus[-1][0])
    return has_instances or bool(fact.pooled and pool_profile(fact, None))


def _of(fact: PodFact) -> str:
    """Return what a pod holds, in one word for users."""
    return _INSTANCES if asks_for_instances(fact) else "slices"


def _resource(index: int, names: ResourceNames) -> str:
    return instance_resource(index) if is_instance(index) else f"{names.per_gpu_prefix}{index}"


def free_there(free: FreeNodes) -> str:
    """Say how many slices are left on the nodes that a pod could go to."""
    named = ", ".join(f"{name} {slices}" for name, slices in free.most)
    if free.not_compared:
        return f"{named} and {f'at least {free.others}' if free.others else 'perhaps'} more nodes"
    return f"{named} and {free.others} more nodes" if free.others else named


def left_out(free: FreeNodes) -> str:
    """Say how many nodes a pod's own demands leave out; empty where they leave out none."""
    if not free.shut_out:
        return ""
    least, more = "at least " if free.not_compared else "", " more" if free.most else ""
    nodes = "node has" if free.shut_out == 1 else "nodes have"
    return f"{least}{free.shut_out}{more} {nodes} such GPUs, and its own {OWN_DEMANDS} leave them out"


def way_out(free: FreeNodes, owner: Creator | None) -> str:
    """Say what would help a pod that waits for slices."""
    if free.elsewhere is None:
        return "it starts when pods there end"
    node, index, slices = free.elsewhere
    return f"GPU {index} of {node} has {slices} free: {_creation(owner)} to use it"


def quoted(text: str, most: int = MAX_QUOTED) -> str:
    """Return a text of others as one line that is not too long."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _sentences(pod: PodSummary, names: ResourceNames) -> Iterator[str]:
    yield _asked(pod, names)
    if pod.fact.is_over or pod.phase in {"Succeeded", "Failed"}:
        yield _ended(pod)
    elif pod.is_terminating:
        yield "It is being deleted, and holds what it has until it is gone."
    elif pod.fact.node is not None:
        yield from _bound(pod)
    else:
        yield from _waiting(pod, names)
    if pod.asked is not None and pod.policy is None and not pod.fact.is_over:
        yield "Delete it and create it again while the injector runs: a label added later changes nothing."
    if pod.drift is not None:
        yield f"Beware: {quoted(pod.drift)}; delete the pod and create it again."


def _asked(pod: PodSummary, names: ResourceNames) -> str:
    fact, title = pod.fact, f"Pod {quoted(pod.fact.namespace)}/{quoted(pod.fact.name)}"
    has = f"asks for {needs(fact, names)}" if fact.slices else "asks for no slices"
    if pod.asked is None:
        return f"{title} has no label {FRACTION_LABEL}, so the injector never touched it; it {has}."
    label = f'{pod.label} "{quoted(pod.asked)}"'
    if pod.policy is None:
        return f"{title} has the label {label}, but was never injected; it {has}."
    memory = f", {quoted(pod.memory_mib)} MiB of GPU memory," if pod.memory_mib else ""
    return (
        f'{title} asked for {label}; policy "{quoted(pod.policy)}" made of it{memory} {needs(fact, names)}.'
    )


def _ended(pod: PodSummary) -> str:
    how = f"It has ended ({pod.phase})" if pod.phase != "Pending" else "It has ended"
    cause = f": {quoted(pod.trouble)}" if pod.trouble else ""
    again = ""
    if pod.phase == "Failed":
        again = f" {_sentence(_creation(pod.owner))}, once the cause is mended."
    return f"{how}{cause}, and holds nothing any more.{again}"


def _bound(pod: PodSummary) -> Iterator[str]:
    node = quoted(pod.fact.node or "")
    if pod.phase == "Running" and pod.trouble is None:
        yield f"It runs on node {node} and waits for nothing."
        return
    yield f"It has its {_of(pod.fact)}, on node {node}, so it waits for nothing of the injector."
    if pod.trouble is not None:
        yield f"Its containers do not run: {quoted(pod.trouble)}. Mend that."
    else:
        yield "The node starts its containers; `kubectl describe pod` shows how far it is."


def _waiting(pod: PodSummary, names: ResourceNames) -> Iterator[str]:
    waited = f" for {_duration(pod.waited_seconds)}" if pod.waited_seconds is not None else ""
    yield f"It has waited{waited} and has no node yet."
    if pod.group is not None:
        yield _in_group(pod.group)
    if pod.gates:
        gates = ", ".join(quoted(gate) for gate in pod.gates[:5])
        yield f"It waits for its scheduling gates ({gates}): no scheduler looks at it before they are gone."
        yield _gatekeeper(pod.gates)
    elif pod.scheduler_says is None and not pod.lacks_slices:
        yield "No scheduler has refused it so far: it waits for one to look at it; ask again in some seconds."
    elif pod.lacks_slices:
        yield from _waiting_for_slices(pod, names)
    else:
        yield f"It waits for something else than {_of(pod.fact)}."
        yield _scheduler(pod)
        yield "Mend what that names, or ask the admin."
    if pod.dividing and not pod.gates:
        named = ", ".join(map(quoted, pod.dividing[:MAX_NODES_NAMED]))
        yield f"Cards of {named} are being divided now, and pods go there when that is over: wait for it."
    elif pod.division is not None and not pod.gates:
        yield f"On dividing a card for it the injector says: {quoted(pod.division)}."


def _in_group(group: PodGroup) -> str:
    """Say what a pod of a group waits for beside its own share."""
    name = f"It is of the group {quoted(group.name)}, whose pods start together"
    if not group.count_is_known:
        return f"{name}: it waits for room for the others too."
    others, bound = group.waiting - 1, group.bound
    have = f"{bound} {'has' if bound == 1 else 'have'} a node"
    if others <= 0:
        return f"{name}: of the others {have}." if bound else f"{name}, and it is alone so far."
    wait = "1 other waits too" if others == 1 else f"{others} others wait too"
    placed = f", {have}" if bound else ""
    return f"{name}: {wait}{placed}, and it waits until there is room for all that it needs."


def _gatekeeper(gates: tuple[str, ...]) -> str:
    if any(gate.startswith("kueue.x-k8s.io/") for gate in gates):
        return "Kueue takes its gate away when the queue has quota: `kubectl describe workload` says more."
    return "Ask who put them there."


def _waiting_for_slices(pod: PodSummary, names: ResourceNames) -> Iterator[str]:
    free, fact = pod.free, pod.fact
    if free is None:
        yield f"It waits for {needs(fact, names)}: nodes have too few left."
        yield _scheduler(pod)
        yield "It starts when pods there end; who may read GpuLedgers learns which GPUs have room."
    elif not free.most and (free.shut_out or free.not_compared):
        yield f"It waits for {needs(fact, names)}: {left_out(free) or TOO_LONG}."
        yield _scheduler(pod)
        yield f"What would help: change these in its manifest; {_creation(pod.owner)}."
    elif not free.most:
        of_agent = " and runs the agent, which alone would limit it," if free.by_agent else ""
        yield f"It waits for {needs(fact, names)}, and no node that takes pods now{of_agent} has such GPUs."
        yield _scheduler(pod)
        without = ", without its agent" if free.by_agent else ""
        divided = ", or still to be divided" if _of(fact) == _INSTANCES else ""
        if free.offered_twice:
            yield _offered_twice(free.offered_twice, pod.owner)
        else:
            yield f"Ask the admin whether such a node is cordoned, not ready{without} or gone{divided}."
    elif free.has_room:
        yield f"Nodes have {_of(fact)} for it now: {free_there(free)} free."
        yield "It waits for the scheduler to try again, or for something else that those nodes lack."
        yield _scheduler(pod)
    else:
        lack = f": {NO_AGENT_WITH_ROOM}" if free.by_agent else ""
        yield f"It waits for {needs(fact, names)}{lack}; free there: {free_there(free)}."
        if free.shut_out:
            yield f"{_sentence(left_out(free))}."
        yield f"What would help: {way_out(free, pod.owner)}."
        if pod.replaced_after is not None:
            yield f"Its policy replaces such a pod after {pod.replaced_after}, where another GPU has room."


def _offered_twice(nodes: int, owner: Creator | None) -> str:
    has = "1 node has" if nodes == 1 else f"{nodes} nodes have"
    off = "ask the admin to turn DRA or the device plugin off there"
    return f"{has} such GPUs that DRA offers too, so no pods go there: {off}, then {_creation(owner)}."


def _scheduler(pod: PodSummary) -> str:
    says = quoted(pod.scheduler_says or "")
    return f"The scheduler says: {says}{'' if says.endswith('.') else '.'}" if says else ""


def _creation(owner: Creator | None) -> str:
    """How to get another pod in place of one. A Job's deleted pod counts as failed, and may fail the Job."""
    if owner is None:
        return "delete the pod and create it again"
    # Any text, where the pod's author wrote the reference.
    name = quoted(owner.name)
    if owner.kind == "Job":
        return f"delete Job {name} and create it again"
    return f"delete the pod, so that {quoted(owner.kind)} {name} creates another"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} seconds"
