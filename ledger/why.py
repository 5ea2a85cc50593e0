"""Explains the state of a pod in words: its request, what happened, what it waits for, what would help.

The caller passes what it could read: the controller (page, Events) passes its ledger, `fraction-injector why`
the API objects that its user may read. Texts that users wrote are quoted unchanged and cut to a length;
callers that show them must escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kube.names import FRACTION_LABEL, GPU_MODEL_ANNOTATION, QUOTA_GATE
from kube.other_constraints import chosen_without
from ledger.free_nodes import MAX_NODES_NAMED, FreeNodes
from ledger.instance_worth import has_instances
from ledger.own_demands import OWN_DEMANDS
from ledger.quoted_text import closed, quoted
from ledger.why_claim import ShareClaim, held_by, request_of, waiting_claim
from modes.facts import PodFact
from modes.resource_names import ResourceNames
from modes.units import Gpu, Profile, Unit

_INSTANCES = "MIG instances"
TOO_LONG = f"the pod's {OWN_DEMANDS} are too long to compare with all nodes that have such GPUs"
NO_AGENT_WITH_ROOM = "no node with a running agent has room"


class Creator(Protocol):
    """The controller that created a pod, and would create another."""

    @property
    def kind(self) -> str: ...  # noqa: D102 - the words are those of an owner reference
    @property
    def name(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    """What the caller knows of one pod; fields that it could not read keep their defaults."""

    fact: PodFact
    asked: str | None = None
    """Value of the pod's label; None without one."""
    label: str = FRACTION_LABEL
    """Name of that label."""
    policy: str | None = None
    """Name of the policy that the pod was injected by; None if it never was."""
    memory_mib: str | None = None
    """The pod's MiB of GPU memory, by its annotation."""
    by_agent: bool = False
    """Whether the agent of its node limits it instead, by the card that it gets."""
    owner: Creator | None = None
    drift: str | None = None
    """How the pod differs from its own annotations."""
    phase: str = "Pending"
    waited_seconds: float | None = None
    """Since the pod's creation; None if unknown."""
    is_terminating: bool = False
    gates: tuple[str, ...] = ()
    """Scheduling gates that the pod still has."""
    quota_line: str | None = None
    """The pod's place in the line of a quota, as the injector reported it; None if it is not known."""
    scheduler_says: str | None = None
    """Why the scheduler could not place the pod at its last attempt; None before that."""
    lacks_slices: bool = False
    """Whether the scheduler's message names slices among the resources that nodes lack."""
    trouble: str | None = None
    """Why the pod's containers do not run although it has a node: reason and message."""
    free: FreeNodes | None = None
    """Nodes with free slices for the pod; None if unknown."""
    division: str | None = None
    """Why no card is divided for the pod, by the controller's last Event on it."""
    dividing: tuple[str, ...] = ()
    """Nodes with cards that are being divided now, and to which the pod could go."""
    uses: tuple[str, ...] = ()
    """Sentences on what a running pod uses of its GPUs; empty if that is not measured."""
    not_considered: str = ""
    """What keeps it off nodes and did not count when its GPU was chosen, in words."""
    claim: ShareClaim | None = None
    """The claim of its share in mode dra, in which it has no slices."""
    asks_model: bool | None = None
    """Whether it has the annotation for models of GPUs."""


def why(pod: PodSummary, names: ResourceNames | None = None) -> str:
    """Return one paragraph, in one line, on an existing pod."""
    return " ".join(filter(None, _sentences(pod, names or ResourceNames())))


def needs(
    fact: PodFact, names: ResourceNames, *, any_gpu: bool = False, asks_model: bool | None = None
) -> str:
    """Return the slices, memory and models that a pod needs, or the MIG instances.

    `any_gpu` leaves out the numbers of GPUs, so that pods with equal needs have equal texts. `asks_model`:
    whether the pod has the annotation for models; None if that is not known.
    """
    what = "slice" if _of(fact) == "slices" else "MIG instance"
    listed = " and ".join(
        [f"{_amount(amount, what)} of {_place(unit, names, any_gpu=any_gpu)}" for unit, amount in fact.takes]
    )
    if what != "slice":
        return f"{listed} on {quoted(' or '.join(fact.models))}" if fact.models else listed
    memory = f" on a node with GPUs of {' or '.join(fact.memory_values)} MiB" if fact.memory_values else ""
    others = "sameModel of its policy, or its own affinity"
    given = {
        None: f"required by {GPU_MODEL_ANNOTATION}, {others}",
        True: f"required by {GPU_MODEL_ANNOTATION}",
        False: f"required by {others}",
    }[asks_model]
    model = f" and model {quoted(' or '.join(fact.models))} ({given})" if fact.models else ""
    return f"{listed}{memory}{model}"


def _amount(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _place(unit: Unit, names: ResourceNames, *, any_gpu: bool) -> str:
    if isinstance(unit, Gpu):
        return "a GPU" if any_gpu else f"GPU {unit}"
    return unit.resource if isinstance(unit, Profile) else names.pooled[0]


def _of(fact: PodFact) -> str:
    """Return the user's word for what a pod holds."""
    return _INSTANCES if has_instances(fact) else "slices"


def _held(pod: PodSummary) -> str:
    return _of(pod.fact) if pod.claim is None else "claim"


def _cards(pod: PodSummary, before: str = ": ") -> str:
    held = held_by(pod.claim) if pod.claim is not None else ""
    return f"{before}{held}" if held else ""


def free_there(free: FreeNodes) -> str:
    """Return the free slices of the nodes that a pod could go to."""
    named = ", ".join(f"{name}: {slices}" for name, slices in free.most)
    more = "node" if free.others == 1 else "nodes"
    return f"{named}, and {free.others} more {more}" if free.others else named


def left_out(free: FreeNodes) -> str:
    """Return how many nodes the pod's own demands exclude; empty if none."""
    if not free.shut_out:
        return ""
    more = " more" if free.most else ""
    nodes = "node has" if free.shut_out == 1 else "nodes have"
    return f"{free.shut_out}{more} {nodes} such GPUs, but the pod's {OWN_DEMANDS} exclude them"


def way_out(free: FreeNodes, owner: Creator | None) -> str:
    """Return what would help a pod that waits for slices."""
    if free.elsewhere is None:
        now = []
        if free.most and (slices := free.most[0][1]):
            now.append(f"a share of {_amount(slices, 'slice')} would start now on {free.most[0][0]}")
        if free.other_model:
            now.append(f"GPUs of model {quoted(free.other_model)} have room now")
        return "; ".join(["it starts when pods there end", *now])
    node, index, slices = free.elsewhere
    return f"GPU {index} of {node} has {slices} free: {_creation(owner)} to use it"


def _sentences(pod: PodSummary, names: ResourceNames) -> Iterator[str]:
    yield _asked(pod, names)
    if pod.fact.is_over or pod.phase in {"Succeeded", "Failed"}:
        yield _ended(pod)
    elif pod.is_terminating:
        yield f"It is being deleted, and holds its {_held(pod)} until then."
    elif pod.fact.node is not None:
        yield from _bound(pod)
    else:
        yield from _waiting(pod, names)
    if pod.asked is not None and pod.policy is None and not pod.fact.is_over:
        yield "Delete it and create it again while the injector runs: a label added later has no effect."
    if pod.drift is not None:
        yield f"Warning: {quoted(pod.drift)}. Delete the pod and create it again."


def _asked(pod: PodSummary, names: ResourceNames) -> str:
    fact, title = pod.fact, f"Pod {quoted(pod.fact.namespace)}/{quoted(pod.fact.name)}"
    given = needs(fact, names, asks_model=pod.asks_model) if pod.claim is None else request_of(pod.claim)
    has = f"requests {given}" if fact.slices or pod.claim is not None else "requests no slices"
    if pod.asked is None:
        return f"{title} has no label {FRACTION_LABEL}, so the injector did not change it. It {has}."
    label = f'{pod.label} "{quoted(pod.asked)}"'
    if pod.policy is None:
        return f"{title} has the label {label}, but was never injected. It {has}."
    mib = pod.memory_mib or ""
    each = " each" if len(fact.takes) > 1 and "," not in mib else ""
    limit = f", limited to {quoted(mib)} MiB{each}" if mib else ""
    if pod.by_agent:
        limit = ", limited by its node's agent to the MiB of these slices on the card"
    return f'{title} requested {label}. Policy "{quoted(pod.policy)}" gives it {given}{limit}.'


def _ended(pod: PodSummary) -> str:
    how = f"It ended ({pod.phase})" if pod.phase != "Pending" else "It ended"
    cause = f" Cause: {closed(pod.trouble)}" if pod.trouble else ""
    again = f" After you fix the cause, {_creation(pod.owner)}." if pod.phase == "Failed" else ""
    return f"{how} and holds nothing.{cause}{again}"


def _bound(pod: PodSummary) -> Iterator[str]:
    node = quoted(pod.fact.node or "")
    if pod.phase == "Running" and pod.trouble is None:
        yield f"It runs on node {node}{_cards(pod, ' with ')}."
        yield from pod.uses
        return
    yield f"It has its {_held(pod)} on node {node}{_cards(pod)}, so it does not wait for the injector."
    if pod.trouble is not None:
        yield f"Its containers do not run: {closed(pod.trouble)} Fix that."
    elif pod.claim is not None and pod.claim.reported is not None:
        yield f"Its driver could not prepare the card; the kubelet tries again: {closed(pod.claim.reported)}"
    else:
        yield "The node is starting its containers: see `kubectl describe pod`."


def _waiting(pod: PodSummary, names: ResourceNames) -> Iterator[str]:
    waited = f"has waited for {_duration(pod.waited_seconds)} and " if pod.waited_seconds is not None else ""
    yield f"It {waited}has no node yet."
    if pod.gates:
        gates = ", ".join(quoted(gate) for gate in pod.gates[:5])
        yield f"It has scheduling gates ({gates}): the scheduler ignores it until they are removed."
        yield _gatekeeper(pod.gates)
        if pod.quota_line is not None:
            yield f"The injector reports its place: {closed(pod.quota_line)}"
    elif pod.claim is not None:
        yield from waiting_claim(pod.claim, _creation(pod.owner))
        yield _scheduler(pod)
    elif pod.scheduler_says is None and not pod.lacks_slices:
        yield "The scheduler has not tried to place it yet: ask again in a few seconds."
    elif pod.lacks_slices:
        yield from _waiting_for_slices(pod, names)
    else:
        yield f"It waits for something other than {_of(pod.fact)}."
        yield _scheduler(pod)
        yield "Fix what that message names, or ask the admin."
    if pod.not_considered and pod.fact.gpus and not pod.gates:
        yield f"{_sentence(chosen_without(pod.not_considered))}."
    if pod.dividing and not pod.gates:
        named = ", ".join(map(quoted, pod.dividing[:MAX_NODES_NAMED]))
        yield f"Cards of {named} are being divided now: wait, pods can go there afterwards."
    elif pod.division is not None and not pod.gates:
        yield f"About dividing a card for it, the injector reports: {closed(pod.division)}"


def _gatekeeper(gates: tuple[str, ...]) -> str:
    if any(gate.startswith("kueue.x-k8s.io/") for gate in gates):
        return "Kueue removes its gate when the queue has quota: see `kubectl describe workload`."
    if gates == (QUOTA_GATE,):
        return "The injector removes it when the pod's quota has room: by priority, then by age."
    if QUOTA_GATE in gates:
        return f"The injector removes {QUOTA_GATE} when the others are gone and the pod's quota has room."
    return "Ask the admin which controller removes them."


def _waiting_for_slices(pod: PodSummary, names: ResourceNames) -> Iterator[str]:
    free, needed = pod.free, needs(pod.fact, names, asks_model=pod.asks_model)
    if free is None:
        yield f"It needs {needed}, and no node has enough free."
        yield _scheduler(pod)
        yield "It starts when pods there end. Users that may read GpuLedgers see which GPUs have room."
    elif not free.most and (free.shut_out or free.not_compared):
        yield f"It needs {needed}. {_sentence(left_out(free) or TOO_LONG)}."
        yield _scheduler(pod)
        yield f"What would help: change these if its manifest has them, then {_creation(pod.owner)}."
    elif not free.most:
        yield from _without_nodes(pod, free, needed)
    elif free.has_room:
        yield f"Nodes have enough free {_of(pod.fact)} for it now: {free_there(free)}."
        yield "It waits for the scheduler to try again, or for something else that these nodes lack."
        yield _scheduler(pod)
    else:
        lack = f" {_sentence(NO_AGENT_WITH_ROOM)}." if free.by_agent else ""
        yield f"It needs {needed}.{lack} Free now: {free_there(free)}."
        if free.shut_out:
            yield f"{_sentence(left_out(free))}."
        yield f"{_sentence(way_out(free, pod.owner))}."


def _without_nodes(pod: PodSummary, free: FreeNodes, needed: str) -> Iterator[str]:
    """Yield what to do for a pod whose GPUs no usable node has."""
    of_agent = " and runs the agent, which must limit the pod," if free.by_agent else ""
    yield f"It needs {needed}, but no node that takes pods now{of_agent} has such GPUs."
    yield _scheduler(pod)
    agent = "without its agent" if free.by_agent else ""
    divided = "not divided yet" if _of(pod.fact) == _INSTANCES else ""
    reasons = _listed(filter(None, ("cordoned", "not ready", agent, "deleted", divided)))
    yield f"Ask the admin whether such a node is {reasons}."
    if free.other_model:
        yield f"GPUs of model {quoted(free.other_model)} have room now."
    if _of(pod.fact) != _INSTANCES:
        yield f"If it offers its cards to claims now (mode dra), {_creation(pod.owner)}."


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}"


def _scheduler(pod: PodSummary) -> str:
    return f"The scheduler reports: {closed(pod.scheduler_says)}" if pod.scheduler_says else ""


def _creation(owner: Creator | None) -> str:
    """Return how to replace a pod. If a Job's pod is deleted, it counts as failed and may fail the Job."""
    if owner is None:
        return "delete the pod and create it again"
    # The pod's author can write any owner reference.
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
