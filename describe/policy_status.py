"""The policies that each webhook and controller serves, read from the processes through the API server.

The leader's Event `PoliciesInForce` and its metric report the same for webhooks only, and only while it
leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import list_all, objects_at
from describe.stored_policies import read_stored_policies
from policies.model.problems import PolicyError
from service.metrics import POLICY_INFO, POLICY_SINCE

COMPONENT_LABEL = "app.kubernetes.io/component"
SERVING = ("webhook", "controller")
"""Components whose processes decide by the policies. An agent reads them only in a short-lived process."""
HEALTH_PORT = "health"
"""Name of the container port for metrics."""
LEADING = "fraction_injector_leading"
CERTIFICATE_ENDS = "fraction_injector_certificate_expiry_timestamp_seconds"
FIGURES = {
    "fraction_injector_gpus": "gpus",
    "fraction_injector_slices_capacity": "slices",
    "fraction_injector_slices_used": "used",
    "fraction_injector_slices_free": "free",
    "fraction_injector_waiting_slices": "waiting",
}
"""Metrics of the leading controller, and the fields of `Figures`."""
WEBHOOKS_BY_POLICIES = "fraction_injector_webhooks_by_policies"
ANSWER_SECONDS = 5.0
MAX_PODS = 200
"""Pods of an installation that are queried."""


@dataclass(frozen=True, slots=True)
class ServedBy:
    """The policies that one process serves."""

    pod: str
    component: str
    digest: str | None = None
    since: float | None = None
    """In Unix seconds; None if the process does not report it."""
    leads: bool = False
    problem: str | None = None
    """Why its policies are unknown."""
    certificate_ends: float | None = None
    """When its served certificate expires, in Unix seconds; None if it does not report it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums of the leading controller's ledger."""

    gpus: int = 0
    slices: int = 0
    """Slices that can be allocated."""
    used: int = 0
    free: int = 0
    """Slices for new pods."""
    waiting: int = 0
    """Slices of pods without a node."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one process reports."""

    served: ServedBy
    by_policies: Mapping[str, int]
    figures: Figures


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """The stored policies, and those that each process serves."""

    config_map: str
    """`namespace/name`."""
    digest: str | None
    """Digest of the policies in the ConfigMap; None if they are broken."""
    problem: str | None
    """What is wrong with the stored policies."""
    served: tuple[ServedBy, ...]
    webhooks_by_policies: Mapping[str, int] | None
    """Number of webhooks by digest, as the leader counts them, in and outside the cluster; None without a
    leader."""
    figures: Figures | None = None
    """As the leader counts; None without a leader."""

    @property
    def are_in_force(self) -> bool:
        """Whether every process serves the stored policies, and at least one is a webhook."""
        webhooks = self.webhooks_by_policies or {}
        has_webhook = bool(webhooks) or any(each.component == "webhook" for each in self.served)
        digests = {*webhooks, *(each.digest for each in self.served)}
        return self.digest is not None and has_webhook and digests == {self.digest}


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Source(msgspec.Struct):
    name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    config_map: _Source | None = None


class _Port(msgspec.Struct, rename="camel"):
    container_port: int
    name: str = ""


class _Container(msgspec.Struct):
    ports: list[_Port] = []


class _Spec(msgspec.Struct):
    containers: list[_Container]
    volumes: list[_Volume] = []


class _State(msgspec.Struct):
    phase: str = "Pending"


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _State = msgspec.field(default_factory=_State)

    @property
    def component(self) -> str:
        return self.metadata.labels.get(COMPONENT_LABEL, "")

    @property
    def health_port(self) -> int | None:
        ports = (port for container in self.spec.containers for port in container.ports)
        return next((port.container_port for port in ports if port.name == HEALTH_PORT), None)


async def read_status(api: ApiServer, namespace: str, config_map: str) -> PolicyStatus:
    """Read the ConfigMap of the policies, and query the pods that mount it.

    Requires the rights to get the ConfigMap, to list pods of the namespace and to get `pods/proxy`.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: something cannot be read.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
    digest, problem = await _stored(api, namespace, config_map)
    listed = await list_all(api, objects_at(f"{path}/pods", _Pod))
    found = sorted(_serving(listed, config_map), key=lambda pod: (pod.component, pod.metadata.name))
    asked = await asyncio.gather(*(_ask(api, path, pod) for pod in found[:MAX_PODS]))
    leader = next((each for each in asked if each.served.leads), None)
    return PolicyStatus(
        f"{namespace}/{config_map}",
        digest,
        problem,
        tuple([each.served for each in asked]),
        leader.by_policies if leader is not None else None,
        leader.figures if leader is not None else None,
    )


async def _stored(api: ApiServer, namespace: str, config_map: str) -> tuple[str | None, str | None]:
    """Return the digest of the stored policies, or what is wrong with them."""
    try:
        return (await read_stored_policies(api, namespace, config_map)).digest, None
    except PolicyError as error:
        return None, str(error)


def _serving(pods: Sequence[_Pod], config_map: str) -> Iterator[_Pod]:
    """Yield our running or starting pods that mount the ConfigMap."""
    for pod in pods:
        mounts = any(
            each.config_map is not None and each.config_map.name == config_map for each in pod.spec.volumes
        )
        if mounts and pod.component in SERVING and pod.status.phase in {"Pending", "Running"}:
            yield pod


async def _ask(api: ApiServer, path: str, pod: _Pod) -> _Answer:
    """Return the policies that a process serves, and what a leading controller counts."""
    name, port = pod.metadata.name, pod.health_port
    if pod.status.phase != "Running" or port is None:
        why = f"the pod is {pod.status.phase}" if port is not None else f"it has no port named {HEALTH_PORT}"
        return _unknown(pod, why)
    url = f"{path}/pods/{quote(name, safe='')}:{port}/proxy/metrics"
    try:
        text = await api.request("GET", url, seconds=ANSWER_SECONDS, accept="text/plain")
        return _of_metrics(pod, text.decode())
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            raise
        return _unknown(pod, f"no answer: {error}")
    except (ValueError, *TRANSPORT_ERRORS) as error:
        return _unknown(pod, f"no answer: {str(error) or type(error).__name__}")


def _unknown(pod: _Pod, problem: str) -> _Answer:
    return _Answer(ServedBy(pod.metadata.name, pod.component, problem=problem), {}, Figures())


def _of_metrics(pod: _Pod, text: str) -> _Answer:
    """Read a process's policies from its metrics.

    Raises:
        ValueError: these are not metrics.
    """
    digest = None
    values: dict[str, float] = {}
    webhooks: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == POLICY_INFO:
                digest = sample.labels.get("digest")
            elif sample.name == WEBHOOKS_BY_POLICIES:
                webhooks[sample.labels.get("digest", "")] = int(sample.value)
            elif not sample.labels:
                values[sample.name] = sample.value
    served = ServedBy(
        pod.metadata.name,
        pod.component,
        digest,
        values.get(POLICY_SINCE),
        leads=bool(values.get(LEADING)),
        problem=None if digest is not None else "it serves no policies",
        certificate_ends=values.get(CERTIFICATE_ENDS),
    )
    figures = {field: int(values[name]) for name, field in FIGURES.items() if name in values}
    return _Answer(served, webhooks, Figures(**figures))
