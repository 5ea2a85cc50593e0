"""Options of a controller process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from controller.watch.agent_coverage import AgentPods, read_agent_pods
from modes.resource_names import ONE_GPU_RESOURCE, ResourceNames, per_gpu_names
from service.options import (
    LOCALHOST,
    LOOPBACK,
    Flag,
    HealthPort,
    Host,
    LineFormat,
    MinimumLevel,
    StopDelay,
    TlsNames,
)
from web.links import Link, read_link

Value = TypeVar("Value")


def _address(url: str) -> str:
    """Put an IPv6 address into brackets, which a pod's address lacks."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    if not url.startswith("https://") or not host or not port.isdecimal():
        raise ValueError(f'--advertise "{url}" must be https://HOST:PORT')
    return (
        f"https://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"https://{host}:{port}"
    )


def _config_map(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        example = "gpu-operator/fraction-injector-mig"
        raise ValueError(f'--mig-config-map "{text}" is not NAMESPACE/NAME, such as {example}')
    return namespace, name


def _parsed(flag: str, read: Callable[[str], Value], hint: str = "") -> Callable[[str], Value]:
    """Return the parser of a flag, whose errors name the flag and end with a hint."""

    def parse(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise ValueError(f"{flag} {error}{hint}") from error

    return parse


_agents = _parsed(
    "--agent-pods:", read_agent_pods, "; set nodeSelector, affinity and tolerations as in a pod's spec"
)
_link = _parsed("--page-link", read_link)
_names = _parsed("--gpu-resource", per_gpu_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """The controller's command line.

    Raises:
        ValueError: two options exclude each other.
    """

    tls_directory: Annotated[
        Path,
        Flag(
            "tls.crt, tls.key and ca.crt of the API, read again when they change. Clients need a "
            "certificate of the same CA, valid for a --client-name.",
            name="--tls-dir",
            metavar="DIR",
        ),
    ]
    tls_names: TlsNames = LOCALHOST
    client_names: Annotated[
        tuple[str, ...],
        Flag(
            "Clients are answered if their certificate is valid for one such name: those of the webhook.",
            name="--client-name",
            metavar="NAME",
            default="localhost",
        ),
    ] = LOCALHOST
    kubeconfig: Annotated[
        Path | None, Flag("How to reach the API server.", metavar="FILE", default="the pod's service account")
    ] = None
    host: Host = LOOPBACK
    port: Annotated[int, Flag("mTLS port of the API; 0 takes a free one.", min=0, max=65535)] = 9443
    health_port: HealthPort = 9080
    page: Annotated[bool, Flag("Show the ledger as a page, at http://localhost:PAGE-PORT/.")] = False
    page_port: Annotated[int, Flag("Port of the page; 0 takes a free one.", min=0, max=65535)] = 9081
    cluster_name: Annotated[str, Flag("Name of the cluster, which the page shows.", metavar="NAME")] = ""
    page_links: Annotated[
        tuple[Link, ...],
        Flag("Link on the page.", name="--page-link", metavar="TEXT=URL", default="none", parse=_link),
    ] = ()
    policies: Annotated[
        Path,
        Flag(
            "Policies of the webhook. Webhooks that start on a broken set get the last good one.",
            metavar="DIR",
        ),
    ]
    policies_config_map: Annotated[
        str | None,
        Flag(
            "ConfigMap of --policies, in --namespace: Events on it report what is wrong with them.",
            metavar="NAME",
        ),
    ] = None
    use_config_map: Annotated[
        str | None,
        Flag(
            "ConfigMap in --namespace that keeps what pods used of their shares, and which idle pods were "
            "warned. Without it no pod is evicted (needs the right to get and patch it, and to evict pods).",
            metavar="NAME",
        ),
    ] = None
    advertise: Annotated[
        str | None,
        Flag(
            "Where standbys send clients while this replica leads, such as https://10.0.0.7:9443.",
            metavar="URL",
            default="https://HOST:PORT",
            parse=_address,
        ),
    ] = None
    namespace: Annotated[str, Flag("Namespace of the Lease.")] = "gpu-fraction-injector"
    lease: Annotated[str, Flag("Name of the Lease.")] = "fraction-injector-controller"
    # The defaults are half of those of Kubernetes' own components, on whose leaders nothing waits.
    lease_duration: Annotated[
        float, Flag("Seconds without a renewal until another replica takes over.", min=0.5)
    ] = 7
    renew_deadline: Annotated[
        float, Flag("Seconds without a renewal until a leader stops placing and writing.", min=0.3)
    ] = 5
    lease_retry: Annotated[float, Flag("Seconds between a leader's renewals.", min=0.1)] = 1
    names: Annotated[
        ResourceNames,
        Flag(
            "Resource name of one GPU's slices, as in the policies.",
            name="--gpu-resource",
            metavar="NAME",
            default=ONE_GPU_RESOURCE,
            parse=_names,
        ),
    ] = ResourceNames()  # noqa: RUF009 frozen
    issue_certificates: Annotated[
        str | None,
        Flag(
            "Issue and rotate an installation's certificates: Secrets NAME-ca and NAME-tls, caBundle of the "
            "webhook configuration NAME, for the Services NAME-webhook and NAME-controller.",
            metavar="NAME",
        ),
    ] = None
    inject_ca: Annotated[
        str | None,
        Flag(
            "Others issue: only keep ca.crt of --tls-dir as caBundle of the webhook configuration NAME.",
            metavar="NAME",
        ),
    ] = None
    webhook_endpoints: Annotated[
        tuple[str, ...],
        Flag(
            "Webhook outside the cluster, whose certificate is watched during a rotation.",
            name="--webhook-endpoint",
            metavar="HOST:PORT",
            default="those of the Service",
        ),
    ] = ()
    ca_settle: Annotated[
        float, Flag("Seconds until every API server knows a new caBundle.", min=0, hidden=True)
    ] = 60
    ca_keep: Annotated[
        float, Flag("Seconds to trust an old CA after its last leaf was seen.", min=0, hidden=True)
    ] = 86400
    ca_retry: Annotated[
        float, Flag("Seconds between checks of Secrets, caBundle and webhooks.", min=0.1, hidden=True)
    ] = 10
    watch_silence: Annotated[
        float, Flag("Seconds without data after which a watch is started again.", min=1, hidden=True)
    ] = 100
    mig_config_map: Annotated[
        tuple[str, str] | None,
        Flag(
            "Divide the MIG cards of labelled nodes on demand, through this ConfigMap of NVIDIA's MIG "
            "manager (needs the right to patch nodes).",
            metavar="NAMESPACE/NAME",
            parse=_config_map,
        ),
    ] = None
    mig_config_delay: Annotated[
        float, Flag("Seconds until a change of that ConfigMap has reached the MIG manager.", min=0)
    ] = 90
    mig_pause: Annotated[
        float, Flag("Seconds after a division for which a node's divided cards stay as they are.", min=0)
    ] = 600
    agents: Annotated[
        AgentPods | None,
        Flag(
            "nodeSelector, affinity and tolerations of the agent's DaemonSet: the nodes that it covers "
            "take no new pods until their agent serves (needs the right to patch nodes).",
            name="--agent-pods",
            metavar="JSON",
            parse=_agents,
        ),
    ] = None
    claim_templates: Annotated[
        bool,
        Flag("Make the ResourceClaimTemplates of pods in mode dra (needs rights to create and delete them)."),
    ] = False
    stop_delay: StopDelay = 10
    log_level: MinimumLevel = "info"
    log_format: LineFormat = "auto"

    def __post_init__(self) -> None:
        if not self.lease_retry < self.renew_deadline < self.lease_duration:
            raise ValueError(
                f"--lease-retry {self.lease_retry}, --renew-deadline {self.renew_deadline} and "
                f"--lease-duration {self.lease_duration} must grow in this order: a leader stops before "
                "another may begin"
            )
        if self.issue_certificates is not None and self.inject_ca is not None:
            raise ValueError("--issue-certificates injects the CA that it issues: leave --inject-ca out")
