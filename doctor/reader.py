"""Reads what the checks need, only from the API server and with the user's rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec

from certs.observation import Observation, Stored, observe
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import list_all, objects_at
from controller.certificates.store import CertificateStore, Installation
from controller.watch.resources import SeenNode, nodes
from describe.quota_report import read_stored_policies
from describe.uninjected import list_uninjected
from doctor import objects
from doctor.processes import read_processes
from doctor.seen import (
    AgentPod,
    AgentSays,
    NotRead,
    Read,
    Seen,
    ServingPod,
    StoredPolicies,
    known,
)
from doctor.trial import try_pod
from kube.events import StoredEvent
from kube.names import (
    API_VERSION,
    ASKING_LABELS,
    GPU_LEDGERS_PATH,
    GPU_NODES_PATH,
)
from policies.loading.policy_set import PolicySet
from policies.model.problems import PolicyError

Value = TypeVar("Value")
Struct = TypeVar("Struct")
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS = f"{_ADMISSION}/mutatingwebhookconfigurations"
LOCK_POLICIES = f"{_ADMISSION}/validatingadmissionpolicies"
LOCK_BINDINGS = f"{_ADMISSION}/validatingadmissionpolicybindings"
OF_LOCK: Mapping[str, str] = {"labelSelector": "app.kubernetes.io/component=second-lock"}
WARNINGS: Mapping[str, str] = {"fieldSelector": "type=Warning"}
_OF_LOG: Mapping[str, str | int] = {"container": "agent", "tailLines": 200, "limitBytes": 2**17}
LOG_SECONDS = 5.0
MAX_LOGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What to read of which installation."""

    namespace: str
    """Namespace of the release."""
    name: str
    """Name of the installation, which is that of its webhook configuration."""
    node: str | None = None
    """The only node to check; None for all."""
    try_namespace: str | None = None
    """Namespace for the dry run of a labelled pod; None for none."""
    brief: bool = False
    """Whether Secrets, and pods of other namespaces, are left out."""


async def read_installation(api: ApiServer, scope: Scope) -> Seen:
    """Read everything that the checks need, with the rights of the user of `api`; nothing is written.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the API server cannot be reached.
    """
    namespace, name, release = scope.namespace, scope.name, quote(scope.name, safe="")
    reader = _Reader(api, namespace, name)
    get, listed, own = reader.get, reader.listed, reader.own
    lease = f"/apis/coordination.k8s.io/v1/{own}/leases/{release}-controller"
    slices = f"/apis/discovery.k8s.io/v1/{own}/endpointslices"
    of_service = {"labelSelector": f"kubernetes.io/service-name={name}-webhook"}
    lock_policies, lock_bindings = partial(objects.lock_policies, name), partial(objects.lock_bindings, name)
    unread = NotRead("it is not read")
    policies, policy_set = await reader.policies()
    pods = await listed(
        f"/api/v1/{own}/pods",
        objects.Json,
        lambda found: (found or [], objects.agent_pods(name, found or [])),
    )
    agent_pods = Read(pods.value[1]) if isinstance(pods, Read) else pods
    reports = await listed(GPU_NODES_PATH, objects.GpuNodeObject, objects.reports)
    return Seen(
        at=datetime.now(UTC),
        namespace=namespace,
        name=name,
        node=scope.node,
        served=await get(f"/apis/{API_VERSION}", objects.Json, objects.served, "to discover APIs"),
        lease=await get(lease, objects.StoredLease, lambda found: found.spec if found is not None else None),
        policies=policies,
        processes=await reader.processes(pods),
        certificates=unread if scope.brief else await reader.certificates(),
        webhook=await get(f"{WEBHOOKS}/{release}", objects.Json, objects.webhook),
        endpoints=await listed(slices, objects.Json, objects.endpoints, of_service),
        lock_policies=await listed(LOCK_POLICIES, objects.Json, lock_policies, OF_LOCK),
        lock_bindings=await listed(LOCK_BINDINGS, objects.Json, lock_bindings, OF_LOCK),
        accounts=await listed(f"/api/v1/{own}/serviceaccounts", objects.Json, objects.names, OF_LOCK),
        agents=await get(f"/apis/apps/v1/{own}/daemonsets/{release}-agent", objects.Json, objects.agents),
        agent_pods=agent_pods,
        agent_logs=await reader.agent_logs(known(agent_pods, ()), known(reports, {}), scope.node),
        events=await listed(f"/api/v1/{own}/events", StoredEvent, objects.events, WARNINGS),
        nodes=await reader.nodes(policy_set),
        reports=reports,
        ledgers=await listed(GPU_LEDGERS_PATH, objects.Json, objects.ledgers),
        uninjected=unread if scope.brief else await reader.uninjected(),
        trial=await try_pod(api, scope.try_namespace, policy_set)
        if scope.try_namespace is not None
        else None,
    )


class _Reader:
    """Reads the parts of an installation one by one."""

    def __init__(self, api: ApiServer, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._policies = f"{name}-policies"
        self.own = f"namespaces/{quote(namespace, safe='')}"
        self.here = f"in namespace {namespace}"

    async def get(
        self, path: str, struct: type[Struct], value_of: Callable[[Struct | None], Value], right: str = ""
    ) -> Read[Value] | NotRead:
        """Read one object; its path says which right that needs."""

        async def ask() -> Struct:
            return msgspec.json.decode(await self._api.request("GET", path), type=struct)

        *_, kind, _ = path.split("/")
        return await _read(right or f"to get {kind}{self._where(path)}", ask, value_of)

    async def listed(
        self,
        path: str,
        struct: type[Struct],
        value_of: Callable[[list[Struct] | None], Value],
        selected: Mapping[str, str] | None = None,
    ) -> Read[Value] | NotRead:
        """Read all objects of a kind."""
        ask = partial(list_all, self._api, objects_at(path, struct, selected or {}))
        return await _read(f"to list {path.rpartition('/')[2]}{self._where(path)}", ask, value_of)

    def _where(self, path: str) -> str:
        return f" {self.here}" if self.own in path else ""

    async def policies(self) -> tuple[Read[StoredPolicies] | NotRead, PolicySet | None]:
        """Return what checks need of the stored policies, and the policies; None if they are not known."""
        ask = partial(read_stored_policies, self._api, self._namespace, self._policies)
        try:
            found = await _read(f"to get configmaps {self.here}", ask, lambda policies: policies)
        except PolicyError as error:
            return Read(StoredPolicies(None, str(error))), None
        if isinstance(found, NotRead):
            return found, None
        policies = found.value
        if policies is None:
            what = f"ConfigMap {self._namespace}/{self._policies} does not exist"
            return NotRead(what, "failed", "name the installation by --release, or install it"), None
        writes_limits = any(each.effective.writes_limits for each in policies.compiled.values())
        of_slices = tuple(
            name
            for (queue, name), each in policies.compiled.items()
            if queue is None and each.effective.mode.counts_slices
        )
        stored = StoredPolicies(policies.digest, writes_limits=writes_limits, of_slices=of_slices)
        return Read(stored), policies

    async def processes(
        self, pods: Read[tuple[list[objects.Json], tuple[AgentPod, ...]]] | NotRead
    ) -> Read[tuple[ServingPod, ...]] | NotRead:
        if isinstance(pods, NotRead):
            return pods
        ask = partial(read_processes, self._api, self._namespace, self._name, pods.value[0])
        return await _read(f"to get pods/proxy {self.here}", ask, lambda found: found or ())

    async def certificates(self) -> Read[Observation] | NotRead:
        store = CertificateStore(self._api, Installation(self._namespace, self._name))

        async def look() -> Stored:
            tls, _ = await store.read_secret("tls")
            bundle = await store.read_bundle()
            authorities, _ = await store.read_secret("ca")
            return Stored(tls, bundle.pem, authorities)

        right = f"to get secrets {self.here} and mutatingwebhookconfigurations"
        found = await _read(right, look, lambda stored: stored)
        if isinstance(found, NotRead):
            return found
        stored = found.value
        if stored is None or (stored.tls is None and stored.authorities is None):
            return NotRead(f"they are not in Secret {self._namespace}/{self._name}-tls")
        return Read(observe(stored, {}, ()))

    async def agent_logs(
        self, pods: tuple[AgentPod, ...], reports: Mapping[str, AgentSays], node: str | None
    ) -> Read[Mapping[str, str]] | NotRead:
        """Read the log of agents that run and report nothing: a few, since many fail for the same reason."""
        running = [pod for pod in pods if not pod.waiting and pod.node and node in {None, pod.node}]
        silent = [pod for pod in running if pod.node not in reports]

        async def read() -> Mapping[str, str]:
            found = {pod.node: objects.complaint(await self._log(pod.name)) for pod in silent[:MAX_LOGS]}
            return {node: said for node, said in found.items() if said is not None}

        return await _read(f"to get pods/log {self.here}", read, lambda found: found or {})

    async def _log(self, pod: str) -> bytes:
        path = f"/api/v1/{self.own}/pods/{quote(pod, safe='')}/log"
        try:
            return await self._api.request("GET", path, query=_OF_LOG, accept="*/*", seconds=LOG_SECONDS)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise
            return b""  # its kubelet does not answer: other checks say so
        except TRANSPORT_ERRORS:
            return b""

    async def nodes(self, policies: PolicySet | None) -> Read[tuple[SeenNode, ...]] | NotRead:
        names = policies.resource_names if policies is not None else None
        ask = partial(list_all, self._api, nodes(names))
        return await _read("to list nodes", ask, lambda found: tuple(found or ()))

    async def uninjected(self) -> Read[tuple[str, ...]] | NotRead:
        async def listed() -> tuple[str, ...]:
            each = [await list_uninjected(self._api, label=key) for key in ASKING_LABELS]
            return tuple(dict.fromkeys(f"{pod.namespace}/{pod.pod}" for found in each for pod in found))

        return await _read("to list pods in the cluster", listed, lambda found: found or ())


async def _read(
    right: str,
    ask: Callable[[], Awaitable[Struct]],
    value_of: Callable[[Struct | None], Value],
) -> Read[Value] | NotRead:
    """Read something; `value_of` gets None if the API server does not have it.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the API server cannot be reached.
    """
    try:
        return Read(value_of(await ask()))
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return NotRead(f"you lack the right {right}")
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return Read(value_of(None))
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        return NotRead(f"what needs the right {right} cannot be read: {error}", "failed", "report it")
