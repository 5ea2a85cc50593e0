"""The input of checks: objects that were read, or why they were not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import msgspec

from controller.publish.gpu_ledger import Condition
from controller.watch.agent_coverage import AgentPods
from controller.watch.gpu_node import AgentReport, UnlimitedContainers
from controller.watch.resources import SeenNode
from doctor.finding import Level

if TYPE_CHECKING:
    from certs.observation import Observation

Value = TypeVar("Value")


class NotReadError(Exception):
    """A check needs something that was not read."""

    def __init__(self, level: Level, why: str, advice: str) -> None:
        super().__init__(why)
        self.level: Level = level
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Read(Generic[Value]):
    """An object, or a list, that was read."""

    value: Value


@dataclass(frozen=True, slots=True)
class NotRead:
    """An object, or a list, that could not be read, with the reason."""

    why: str
    level: Level = "skipped"
    advice: str = ""

    @property
    def value(self) -> NoReturn:
        """Raise an error.

        Raises:
            NotReadError: always.
        """
        raise NotReadError(self.level, self.why, self.advice)


def known(read: Read[Value] | NotRead, otherwise: Value) -> Value:
    """Return what was read, or a default if a check continues without it."""
    return read.value if isinstance(read, Read) else otherwise


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who holds the controller's Lease."""

    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int = 0
    """Seconds that it is valid after a renewal."""


class StoredPolicies(msgspec.Struct, frozen=True):
    """The policies in the ConfigMap."""

    digest: str | None
    """None if they are broken."""
    problem: str | None = None
    """What is wrong with them."""
    writes_limits: bool = True
    """Whether a policy fixes MiB at admission, for which nodes need the label of their memory."""
    of_slices: tuple[str, ...] = ()
    """Names of policies whose pods get slices of GPUs."""


class Figures(msgspec.Struct, frozen=True):
    """Sums of the leading controller's ledger."""

    gpus: int = 0
    slices: int = 0
    """Slices that can be allocated."""
    free: int = 0
    """Slices for new pods."""
    waiting: int = 0
    """Slices of pods without a node."""
    cards: int = 0
    """Cards that DRA drivers offer to claims."""


class ServingPod(msgspec.Struct, frozen=True):
    """What a pod of the webhook or the controller serves."""

    pod: str
    component: str
    digest: str | None = None
    """Digest of its policies."""
    since: float | None = None
    """Since when it serves them, in Unix seconds; None if it does not report it."""
    problem: str | None = None
    """Why its policies are unknown."""
    certificate_ends: float | None = None
    """When its served certificate expires, in Unix seconds; None if it does not report it."""
    figures: Figures | None = None
    """As the leader counts; None of the others."""


class WebhookEntry(msgspec.Struct, frozen=True):
    """The one entry of the webhook configuration."""

    failure_policy: str
    ca_bundle: bytes
    """PEM."""
    url: str | None = None
    """URL of a webhook outside the cluster."""


class LockPolicy(msgspec.Struct, frozen=True):
    """A ValidatingAdmissionPolicy of the second lock."""

    name: str
    warnings: tuple[str, ...] = ()
    """Warnings of the API server's type checking."""


class LockBinding(msgspec.Struct, frozen=True):
    """A binding of the second lock."""

    name: str
    policy: str
    actions: tuple[str, ...]
    account: str | None
    """Name of the ServiceAccount without which the API server allows everything."""


class AgentSet(msgspec.Struct, frozen=True):
    """The agent's DaemonSet."""

    desired: int
    current: int
    pods: AgentPods = AgentPods()
    """Demands of its pods on a node."""


class Waiting(msgspec.Struct, frozen=True):
    """A container that does not run, or is not ready."""

    container: str
    reason: str
    message: str = ""
    exit_code: int | None = None
    """Exit code of its last run."""


class AgentPod(msgspec.Struct, frozen=True):
    """A pod of the agent."""

    name: str
    node: str
    is_ready: bool
    waiting: tuple[Waiting, ...] = ()


class ReportedCard(msgspec.Struct, frozen=True):
    """A GPU in an agent's report."""

    index: int
    healthy: bool = False
    why: str = ""
    mig: bool = False
    whole: bool = False
    memory_mib: int = msgspec.field(default=0, name="memoryMiB")


class AgentSays(msgspec.Struct, frozen=True):
    """The report of a node's agent."""

    registered: bool = False
    missing: str = ""
    """Why the kubelet does not count some resources."""
    boot_id: str = msgspec.field(default="", name="bootID")
    gpus: tuple[ReportedCard, ...] = ()
    unlimited: UnlimitedContainers | None = None
    """None if the agent does not search for programs without their limiter."""
    driver_limits: str = msgspec.field(default="", name="driverLimits")
    """Whether the driver limits shares, or why not; empty if it never has to."""
    limit: str = ""
    """What limits shares; empty if the agent does not limit them, or is older."""
    offer: str = ""
    mig_profiles: tuple[msgspec.Raw, ...] = msgspec.field(default=(), name="migProfiles")

    @property
    def shared(self) -> list[ReportedCard]:
        """The GPUs of which pods get shares."""
        return [each for each in self.gpus if not (each.mig or each.whole)]

    @property
    def has_mig(self) -> bool:
        """Whether a GPU is in MIG mode."""
        return any(each.mig for each in self.gpus)

    def report(self, node: str) -> AgentReport:
        """Return what decides whether the agent serves."""
        return AgentReport(
            node,
            (),
            has_healthy_cards=any(each.healthy for each in self.shared),
            is_registered=self.registered,
            boot_id=self.boot_id,
            offers_by_dra=self.offer == "dra",
        )


class Trial(msgspec.Struct, frozen=True):
    """The result of a labelled pod's dry run."""

    namespace: str
    injected: str | None = None
    """Name of the policy that injected it."""
    no_share: str | None = None
    """Name of the policy that gives its pods no share."""
    refusal: str | None = None
    """The API server's message; None if the pod would be created."""
    closed_by: str | None = None
    """Name of the policy that allows its pods no share, so that none is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything that was read of an installation."""

    at: datetime
    namespace: str
    name: str
    node: str | None = None
    """The only node to check; None for all."""
    served: Read[frozenset[str]] | NotRead
    """Resources of our API group."""
    lease: Read[LeaseSpec | None] | NotRead
    policies: Read[StoredPolicies] | NotRead
    processes: Read[tuple[ServingPod, ...]] | NotRead
    """Pods of webhook and controller."""
    certificates: Read[Observation] | NotRead
    webhook: Read[WebhookEntry | None] | NotRead
    endpoints: Read[tuple[str, ...]] | NotRead
    """Ready addresses of the webhook's Service."""
    lock_policies: Read[tuple[LockPolicy, ...]] | NotRead
    lock_bindings: Read[tuple[LockBinding, ...]] | NotRead
    accounts: Read[frozenset[str]] | NotRead
    """Names of ServiceAccounts in the release's namespace that belong to the second lock."""
    agents: Read[AgentSet | None] | NotRead
    agent_pods: Read[tuple[AgentPod, ...]] | NotRead
    agent_logs: Read[Mapping[str, str]] | NotRead
    """The last complaint in the log of agents that run and report nothing, by node."""
    events: Read[Mapping[tuple[str, str], str]] | NotRead
    """The last warning about a DaemonSet or pod of the release's namespace, by kind and name."""
    nodes: Read[tuple[SeenNode, ...]] | NotRead
    reports: Read[Mapping[str, AgentSays]] | NotRead
    """By node."""
    ledgers: Read[Mapping[str, tuple[Condition, ...]]] | NotRead
    """Conditions of each GpuLedger, by node."""
    uninjected: Read[tuple[str, ...]] | NotRead
    """`namespace/name` of pods that asked for a share and were never injected."""
    trial: Read[Trial] | NotRead | None = None
    """None if no pod is tried."""
