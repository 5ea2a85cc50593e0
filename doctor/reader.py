"""Reads what the checks need, only from the API server and with the user's rights."""

from __future__ import annotations

import asyncio
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
from controller.publish.gpu_ledger import Condition
from controller.watch.resources import SeenNode, nodes
from describe.quota_report import read_stored_policies
from describe.uninjected import list_uninjected
from doctor import gpu_nodes, objects
from doctor.processes import read_processes
from doctor.seen import (
    AgentPod,
    AgentSays,
    AgentSet,
    Lease,
    LockBinding,
    LockPolicy,
    NotRead,
    Read,
    Seen,
    ServingPod,
    StoredPolicies,
    WebhookEntry,
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
from modes.resource_names import ResourceNames
from policies.loading.policy_set import PolicySet
from policies.model.problems import PolicyError

Value = TypeVar("Value")
Struct = TypeVar("Struct")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
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
    namespace, name = scope.namespace, scope.name
    reader = _Reader(api, namespace, name)
    (policies, policy_set), pods, webhook = await asyncio.gather(
        reader.policies(), reader.pods(), reader.webhook()
    )
    lease, endpoints, agents = await asyncio.gather(reader.lease(), reader.endpoints(), reader.agents())
    lock_policies, lock_bindings, accounts = await asyncio.gather(
        reader.lock_policies(), reader.lock_bindings(), reader.accounts()
    )
    listed_nodes, events, reports = await asyncio.gather(
        reader.nodes(policy_set), reader.events(), reader.reports()
    )
    unread = NotRead("it is not read")
    agent_pods = Read(objects.agent_pods(name, pods.value)) if isinstance(pods, Read) else pods
    return Seen(
        at=datetime.now(UTC),
        namespace=namespace,
        name=name,
        node=scope.node,
        served=await reader.served(),
        lease=lease,
        policies=policies,
        processes=await reader.processes(pods),
        certificates=unread if scope.brief else await reader.certificates(),
        webhook=webhook,
        endpoints=endpoints,
        lock_policies=lock_policies,
        lock_bindings=lock_bindings,
        accounts=accounts,
        agents=agents,
        agent_pods=agent_pods,
        agent_logs=await reader.agent_logs(known(agent_pods, ()), known(reports, {}), scope.node),
        events=events,
        nodes=listed_nodes,
        reports=reports,
        ledgers=await reader.ledgers(),
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
        self._in = f"namespaces/{quote(namespace, safe='')}"
        self._here = f"in namespace {namespace}"

    async def served(self) -> Read[frozenset[str]] | NotRead:
        get = self._get(f"/apis/{API_VERSION}", objects.ApiResources)
        return await _read("to discover APIs", get, objects.served)

    async def lease(self) -> Read[Lease | None] | NotRead:
        path = f"/apis/coordination.k8s.io/v1/{self._in}/leases/{quote(self._name, safe='')}-controller"
        return await _read(f"to get leases {self._here}", self._get(path, objects.LeaseObject), objects.lease)

    async def policies(self) -> tuple[Read[StoredPolicies] | NotRead, PolicySet | None]:
        """Return what checks need of the stored policies, and the policies; None if they are not known."""
        ask = partial(read_stored_policies, self._api, self._namespace, self._policies)
        try:
            found = await _read(f"to get configmaps {self._here}", ask, lambda policies: policies)
        except PolicyError as error:
            return Read(StoredPolicies(None, str(error))), None
        if isinstance(found, NotRead):
            return found, None
        policies = found.value
        if policies is None:
            what = f"ConfigMap {self._namespace}/{self._policies} does not exist"
            return NotRead(
                what, "failed", "name the installation by --namespace and --name, or install it"
            ), None
        writes_limits = any(each.effective.writes_limits for each in policies.compiled.values())
        return Read(StoredPolicies(policies.digest, writes_limits=writes_limits)), policies

    async def pods(self) -> Read[list[objects.ReleasePod]] | NotRead:
        get = self._list(f"/api/v1/{self._in}/pods", objects.ReleasePod)
        return await _read(f"to list pods {self._here}", get, lambda found: found or [])

    async def processes(
        self, pods: Read[list[objects.ReleasePod]] | NotRead
    ) -> Read[tuple[ServingPod, ...]] | NotRead:
        if isinstance(pods, NotRead):
            return pods
        ask = partial(read_processes, self._api, self._namespace, self._policies, pods.value)
        return await _read(f"to get pods/proxy {self._here}", ask, lambda found: found or ())

    async def certificates(self) -> Read[Observation] | NotRead:
        store = CertificateStore(self._api, Installation(self._namespace, self._name))

        async def look() -> Stored:
            tls, _ = await store.read_secret("tls")
            bundle = await store.read_bundle()
            authorities, _ = await store.read_secret("ca")
            return Stored(tls, bundle.pem, authorities)

        right = f"to get secrets {self._here} and mutatingwebhookconfigurations"
        found = await _read(right, look, lambda stored: stored)
        if isinstance(found, NotRead):
            return found
        stored = found.value
        if stored is None or (stored.tls is None and stored.authorities is None):
            return NotRead(f"they are not in Secret {self._namespace}/{self._name}-tls")
        return Read(observe(stored, {}, ()))

    async def webhook(self) -> Read[WebhookEntry | None] | NotRead:
        path = f"{ADMISSION}/mutatingwebhookconfigurations/{quote(self._name, safe='')}"
        get = self._get(path, objects.ConfigurationObject)
        return await _read("to get mutatingwebhookconfigurations", get, objects.webhook)

    async def endpoints(self) -> Read[tuple[str, ...]] | NotRead:
        query = {"labelSelector": f"kubernetes.io/service-name={self._name}-webhook"}
        get = self._list(f"/apis/discovery.k8s.io/v1/{self._in}/endpointslices", objects.SliceObject, query)
        return await _read(f"to list endpointslices {self._here}", get, objects.endpoints)

    async def lock_policies(self) -> Read[tuple[LockPolicy, ...]] | NotRead:
        path = f"{ADMISSION}/validatingadmissionpolicies"
        of_release = partial(objects.lock_policies, self._name)
        return await _read(
            "to list validatingadmissionpolicies", self._list(path, objects.PolicyObject, OF_LOCK), of_release
        )

    async def lock_bindings(self) -> Read[tuple[LockBinding, ...]] | NotRead:
        path = f"{ADMISSION}/validatingadmissionpolicybindings"
        of_release = partial(objects.lock_bindings, self._name)
        get = self._list(path, objects.BindingObject, OF_LOCK)
        return await _read("to list validatingadmissionpolicybindings", get, of_release)

    async def accounts(self) -> Read[frozenset[str]] | NotRead:
        get = self._list(f"/api/v1/{self._in}/serviceaccounts", objects.NamedObject, OF_LOCK)
        return await _read(f"to list serviceaccounts {self._here}", get, objects.names)

    async def agents(self) -> Read[AgentSet | None] | NotRead:
        path = f"/apis/apps/v1/{self._in}/daemonsets/{quote(self._name, safe='')}-agent"
        return await _read(
            f"to get daemonsets {self._here}", self._get(path, objects.DaemonSetObject), objects.agents
        )

    async def agent_logs(
        self, pods: tuple[AgentPod, ...], reports: Mapping[str, AgentSays], node: str | None
    ) -> Read[Mapping[str, str]] | NotRead:
        """Read the log of agents that run and report nothing: a few, since many fail for the same reason."""
        running = [pod for pod in pods if not pod.waiting and pod.node and node in {None, pod.node}]
        silent = [pod for pod in running if pod.node not in reports]

        async def read() -> Mapping[str, str]:
            found = {pod.node: objects.complaint(await self._log(pod.name)) for pod in silent[:MAX_LOGS]}
            return {node: said for node, said in found.items() if said is not None}

        return await _read(f"to get pods/log {self._here}", read, lambda found: found or {})

    async def _log(self, pod: str) -> bytes:
        path = f"/api/v1/{self._in}/pods/{quote(pod, safe='')}/log"
        try:
            return await self._api.request("GET", path, query=_OF_LOG, accept="*/*", seconds=LOG_SECONDS)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise
            return b""  # its kubelet does not answer: other checks say so
        except TRANSPORT_ERRORS:
            return b""

    async def events(self) -> Read[Mapping[tuple[str, str], str]] | NotRead:
        get = self._list(f"/api/v1/{self._in}/events", StoredEvent, WARNINGS)
        return await _read(f"to list events {self._here}", get, objects.events)

    async def nodes(self, policies: PolicySet | None) -> Read[tuple[SeenNode, ...]] | NotRead:
        names = policies.resource_names if policies is not None else ResourceNames()
        ask = partial(list_all, self._api, nodes(names))
        return await _read("to list nodes", ask, lambda found: tuple(found or ()))

    async def reports(self) -> Read[Mapping[str, AgentSays]] | NotRead:
        return await _read(
            "to list gpunodes", self._list(GPU_NODES_PATH, gpu_nodes.GpuNodeObject), gpu_nodes.reports
        )

    async def ledgers(self) -> Read[Mapping[str, tuple[Condition, ...]]] | NotRead:
        return await _read(
            "to list gpuledgers", self._list(GPU_LEDGERS_PATH, objects.LedgerObject), objects.ledgers
        )

    async def uninjected(self) -> Read[tuple[str, ...]] | NotRead:
        async def listed() -> tuple[str, ...]:
            each = [await list_uninjected(self._api, ResourceNames(), label=key) for key in ASKING_LABELS]
            return tuple(dict.fromkeys(f"{pod.namespace}/{pod.pod}" for found in each for pod in found))

        return await _read("to list pods in the cluster", listed, lambda found: found or ())

    def _get(self, path: str, struct: type[Struct]) -> Callable[[], Awaitable[Struct]]:
        async def get() -> Struct:
            return msgspec.json.decode(await self._api.request("GET", path), type=struct)

        return get

    def _list(
        self, path: str, struct: type[Struct], selected: Mapping[str, str] | None = None
    ) -> Callable[[], Awaitable[list[Struct]]]:
        return partial(list_all, self._api, objects_at(path, struct, selected or {}))


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
    except (msgspec.MsgspecError, ValueError) as error:
        return NotRead(f"what needs the right {right} cannot be read: {error}", "failed", "report it")
