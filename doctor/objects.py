"""Objects of the API server, with only the fields that checks use, and their conversion. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from controller.publish.gpu_ledger import Condition
from controller.watch.agent_coverage import AgentPods
from doctor.seen import (
    AgentPod,
    AgentSet,
    Lease,
    LockBinding,
    LockPolicy,
    Waiting,
    WebhookEntry,
)
from kube.container_status import ContainerStatus, PodCondition
from kube.events import StoredEvent
from kube.names import YIELDS_ANNOTATION


class NamedMetadata(msgspec.Struct):
    """Metadata of any object."""

    name: str = ""
    annotations: dict[str, str] | None = None


class NamedObject(msgspec.Struct):
    """Any object."""

    metadata: NamedMetadata


class _Resource(msgspec.Struct):
    name: str


class ApiResources(msgspec.Struct):
    """Discovery of one version of an API group."""

    resources: list[_Resource] = []


def served(found: ApiResources | None) -> frozenset[str]:
    """Return the resources that are served."""
    return frozenset(each.name for each in found.resources) if found is not None else frozenset()


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int = 0


class LeaseObject(NamedObject):
    """A Lease."""

    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


def lease(found: LeaseObject | None) -> Lease | None:
    """Return the controller's Lease."""
    if found is None:
        return None
    spec, annotations = found.spec, found.metadata.annotations or {}
    return Lease(
        holder=spec.holder_identity,
        renewed=spec.renew_time,
        seconds=spec.lease_duration_seconds,
        yields=annotations.get(YIELDS_ANNOTATION),
    )


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str = ""
    url: str | None = None


class _Entry(msgspec.Struct, rename="camel"):
    client_config: _ClientConfig
    failure_policy: str = "Fail"


class ConfigurationObject(NamedObject):
    """A MutatingWebhookConfiguration."""

    webhooks: list[_Entry] = []


def webhook(found: ConfigurationObject | None) -> WebhookEntry | None:
    """Return the one entry of the configuration."""
    if found is None or not found.webhooks:
        return None
    [entry, *_] = found.webhooks
    bundle = base64.b64decode(entry.client_config.ca_bundle)
    return WebhookEntry(entry.failure_policy, bundle, entry.client_config.url)


class _Conditions(msgspec.Struct):
    ready: bool | None = None


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class SliceObject(msgspec.Struct):
    """An EndpointSlice."""

    endpoints: list[_Endpoint] | None = None


def endpoints(found: list[SliceObject] | None) -> tuple[str, ...]:
    """Return the ready addresses; Kubernetes says to treat an unknown condition as true."""
    of_all = (each for one in found or () for each in one.endpoints or ())
    return tuple(each.addresses[0] for each in of_all if each.conditions.ready is not False)


class _Warning(msgspec.Struct):
    warning: str


class _TypeChecking(msgspec.Struct, rename="camel"):
    expression_warnings: list[_Warning] | None = None


class _PolicyStatus(msgspec.Struct, rename="camel"):
    type_checking: _TypeChecking | None = None


class PolicyObject(NamedObject):
    """A ValidatingAdmissionPolicy."""

    status: _PolicyStatus = msgspec.field(default_factory=_PolicyStatus)


def lock_policies(release: str, found: list[PolicyObject] | None) -> tuple[LockPolicy, ...]:
    """Return the policies of an installation."""
    return tuple(
        LockPolicy(each.metadata.name, tuple(_warnings(each.status)))
        for each in found or ()
        if each.metadata.name.startswith(f"{release}-")
    )


def _warnings(status: _PolicyStatus) -> Iterator[str]:
    checking = status.type_checking
    for each in (checking and checking.expression_warnings) or ():
        yield each.warning


class _ParamRef(msgspec.Struct):
    name: str | None = None


class _BindingSpec(msgspec.Struct, rename="camel"):
    policy_name: str
    validation_actions: list[str] = []
    param_ref: _ParamRef | None = None


class BindingObject(NamedObject):
    """A ValidatingAdmissionPolicyBinding."""

    spec: _BindingSpec


def lock_bindings(release: str, found: list[BindingObject] | None) -> tuple[LockBinding, ...]:
    """Return the bindings of an installation."""
    return tuple(
        LockBinding(
            each.metadata.name,
            each.spec.policy_name,
            tuple(each.spec.validation_actions),
            each.spec.param_ref.name if each.spec.param_ref is not None else None,
        )
        for each in found or ()
        if each.metadata.name.startswith(f"{release}-")
    )


def names(found: list[NamedObject] | None) -> frozenset[str]:
    """Return the names of objects."""
    return frozenset(each.metadata.name for each in found or ())


class _SetStatus(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0


class _Template(msgspec.Struct):
    spec: AgentPods = AgentPods()


class _SetSpec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class DaemonSetObject(NamedObject):
    """A DaemonSet."""

    spec: _SetSpec = msgspec.field(default_factory=_SetSpec)
    status: _SetStatus = msgspec.field(default_factory=_SetStatus)


def agents(found: DaemonSetObject | None) -> AgentSet | None:
    """Return how many pods the agent's DaemonSet has, and for which nodes."""
    if found is None:
        return None
    status = found.status
    pods = found.spec.template.spec
    return AgentSet(status.desired_number_scheduled, status.current_number_scheduled, pods)


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    conditions: list[PodCondition] = []
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


class _PodMetadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _ConfigMapSource(msgspec.Struct):
    name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    config_map: _ConfigMapSource | None = None


class _Port(msgspec.Struct, rename="camel"):
    container_port: int
    name: str = ""


class _Container(msgspec.Struct):
    ports: list[_Port] = []


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] = []
    volumes: list[_Volume] = []


class ReleasePod(msgspec.Struct):
    """A pod of the release's namespace."""

    metadata: _PodMetadata
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def component(self) -> str:
        """Which part of a chart it is; empty if it does not say."""
        return self.metadata.labels.get("app.kubernetes.io/component", "")

    @property
    def config_maps(self) -> frozenset[str]:
        """Names of the ConfigMaps that it mounts."""
        return frozenset(each.config_map.name for each in self.spec.volumes if each.config_map is not None)

    @property
    def health_port(self) -> int | None:
        """The port of its probes and metrics."""
        ports = (port for container in self.spec.containers for port in container.ports)
        return next((port.container_port for port in ports if port.name == "health"), None)


def agent_pods(release: str, found: list[ReleasePod]) -> tuple[AgentPod, ...]:
    """Return the agent's pods; other charts may use the same label."""
    prefix = f"{release}-agent-"
    return tuple(
        _agent_pod(each)
        for each in found
        if each.component == "agent" and each.metadata.name.startswith(prefix)
    )


def _agent_pod(pod: ReleasePod) -> AgentPod:
    status = pod.status
    is_ready = any((each.type, each.status) == ("Ready", "True") for each in status.conditions)
    first = [each for each in map(_waiting, status.init_container_statuses) if each is not None][:1]
    # A container that waits for an init container is not a problem of its own.
    waiting = first or [each for each in map(_waiting, status.container_statuses) if each is not None]
    waiting += [
        Waiting("scheduler", "Unscheduled", each.message)
        for each in status.conditions
        if (each.type, each.status) == ("PodScheduled", "False")
    ]
    return AgentPod(pod.metadata.name, pod.spec.node_name, is_ready, tuple(waiting))


def _waiting(container: ContainerStatus) -> Waiting | None:
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


class _LedgerStatus(msgspec.Struct):
    conditions: tuple[Condition, ...] = ()


class LedgerObject(NamedObject):
    """A GpuLedger."""

    status: _LedgerStatus = msgspec.field(default_factory=_LedgerStatus)


def ledgers(found: list[LedgerObject] | None) -> Mapping[str, tuple[Condition, ...]]:
    """Return the conditions of GpuLedgers, by node."""
    return {each.metadata.name: each.status.conditions for each in found or ()}
