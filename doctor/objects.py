"""Objects of the API server, with only the fields that checks use, and their conversion. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cluster.object_reader import StoredObject
from controller.publish.gpu_ledger import Condition
from controller.watch.agent_coverage import AgentPods
from doctor.seen import (
    AgentPod,
    AgentSays,
    AgentSet,
    LeaseSpec,
    LockBinding,
    LockPolicy,
    Waiting,
    WebhookEntry,
)
from kube.container_status import ContainerStatus, PodCondition
from kube.events import StoredEvent

Json = dict[str, Any]


def _at(found: Any, *keys: str) -> Any:
    """Return what an object has at a path; None if it has nothing there."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _name(found: Json) -> str:
    return str(_at(found, "metadata", "name"))


def served(found: Json | None) -> frozenset[str]:
    """Return the resources that are served, of the discovery of one version of an API group."""
    return frozenset(_at(each, "name") for each in _at(found, "resources") or ())


class StoredLease(msgspec.Struct):
    """A Lease."""

    spec: LeaseSpec


def webhook(found: Json | None) -> WebhookEntry | None:
    """Return the one entry of the MutatingWebhookConfiguration."""
    for entry in _at(found, "webhooks") or ():
        config = _at(entry, "clientConfig")
        known = {"failure_policy": _at(entry, "failurePolicy") or "Fail", "url": _at(config, "url")}
        return msgspec.convert({**known, "ca_bundle": _at(config, "caBundle") or ""}, WebhookEntry)
    return None


def endpoints(found: list[Json] | None) -> tuple[str, ...]:
    """Return the ready addresses of EndpointSlices; Kubernetes says to treat an unknown condition as true."""
    of_all = (each for one in found or () for each in _at(one, "endpoints") or ())
    return tuple(
        _at(each, "addresses")[0] for each in of_all if _at(each, "conditions", "ready") is not False
    )


def lock_policies(release: str, found: list[Json] | None) -> tuple[LockPolicy, ...]:
    """Return the ValidatingAdmissionPolicies of an installation."""
    return tuple(
        LockPolicy(
            _name(each),
            tuple(
                _at(one, "warning") for one in _at(each, "status", "typeChecking", "expressionWarnings") or ()
            ),
        )
        for each in found or ()
        if _name(each).startswith(f"{release}-")
    )


def lock_bindings(release: str, found: list[Json] | None) -> tuple[LockBinding, ...]:
    """Return the ValidatingAdmissionPolicyBindings of an installation."""
    return tuple(
        LockBinding(
            _name(each),
            _at(each, "spec", "policyName"),
            tuple(_at(each, "spec", "validationActions") or ()),
            _at(each, "spec", "paramRef", "name"),
        )
        for each in found or ()
        if _name(each).startswith(f"{release}-")
    )


def names(found: list[Json] | None) -> frozenset[str]:
    """Return the names of objects."""
    return frozenset(map(_name, found or ()))


def agents(found: Json | None) -> AgentSet | None:
    """Return how many pods the agent's DaemonSet has, and for which nodes."""
    if found is None:
        return None
    desired, current = (
        _at(found, "status", f"{which}NumberScheduled") or 0 for which in ("desired", "current")
    )
    pods = msgspec.convert(_at(found, "spec", "template", "spec") or {}, AgentPods)
    return AgentSet(desired, current, pods)


def component(pod: Json) -> str:
    """Return which part of a chart a pod is; empty if it does not say."""
    return str(_at(pod, "metadata", "labels", "app.kubernetes.io/component") or "")


def agent_pods(release: str, found: list[Json]) -> tuple[AgentPod, ...]:
    """Return the agent's pods; other charts may use the same label."""
    prefix = f"{release}-agent-"
    ours = [each for each in found if component(each) == "agent" and _name(each).startswith(prefix)]
    return tuple(map(_agent_pod, ours))


def _agent_pod(pod: Json) -> AgentPod:
    conditions = msgspec.convert(_at(pod, "status", "conditions") or [], list[PodCondition])
    is_ready = any((each.type, each.status) == ("Ready", "True") for each in conditions)
    # A container that waits for an init container is not a problem of its own.
    waiting = _waiting(pod, "initContainerStatuses")[:1] or _waiting(pod, "containerStatuses")
    waiting += [
        Waiting("scheduler", "Unscheduled", each.message)
        for each in conditions
        if (each.type, each.status) == ("PodScheduled", "False")
    ]
    return AgentPod(_name(pod), _at(pod, "spec", "nodeName") or "", is_ready, tuple(waiting))


def _waiting(pod: Json, statuses: str) -> list[Waiting]:
    containers = msgspec.convert(_at(pod, "status", statuses) or [], list[ContainerStatus])
    return list(filter(None, map(_waits, containers)))


def _waits(container: ContainerStatus) -> Waiting | None:
    state, last = container.state, container.last_state.terminated
    if state.terminated is not None:
        ended = state.terminated
        message = _last_line(ended.message)
        return Waiting(container.name, ended.reason, message, ended.exit_code) if ended.exit_code else None
    if state.waiting is None:
        return None
    if last is None:
        return Waiting(container.name, state.waiting.reason, state.waiting.message)
    message = _last_line(last.message) or state.waiting.message
    return Waiting(container.name, state.waiting.reason, message, last.exit_code)


def _last_line(text: str) -> str:
    """Return the last line of a log, in which a process says why it ends."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


class _LogLine(msgspec.Struct):
    level: str = ""
    event: str = ""
    error: str = ""


def complaint(log: bytes) -> str | None:
    """Return the last warning or error in a log of JSON lines that has a reason; None without one."""
    for text in reversed(log.splitlines()):
        try:
            line = msgspec.json.decode(text, type=_LogLine)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue  # a line of a library, or cut off
        if line.level in {"warning", "error"} and line.error:
            return f"{line.event}: {line.error}"
    return None


def events(found: list[StoredEvent] | None) -> Mapping[tuple[str, str], str]:
    """Return the last warning about each object."""
    by_time = sorted(found or (), key=lambda each: each.last_time or "")
    about = ((each.involved_object, f"{each.reason}: {each.message}") for each in by_time)
    return {(involved.kind, involved.name): message for involved, message in about}


def ledgers(found: list[Json] | None) -> Mapping[str, tuple[Condition, ...]]:
    """Return the conditions of GpuLedgers, by node."""
    conditions = tuple[Condition, ...]
    return {
        _name(each): msgspec.convert(_at(each, "status", "conditions") or (), conditions)
        for each in found or ()
    }


class GpuNodeObject(StoredObject):
    """A GpuNode."""

    status: AgentSays | None = None


def reports(found: list[GpuNodeObject] | None) -> Mapping[str, AgentSays]:
    """Return the agents' reports, by node."""
    return {each.metadata.name: each.status or AgentSays() for each in found or ()}
