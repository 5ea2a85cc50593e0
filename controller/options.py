"""How a controller process runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from certs.rotation import RotationSettings
from controller.certificates.store import Installation
from controller.geometry.loop import GeometryOptions
from controller.informer import Timing
from controller.leadership import LeaseTiming
from controller.node_agents.coverage import AgentPods
from kube.names import DRA_DRIVER
from modes.resource_names import ResourceNames


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How a controller process runs."""

    kubeconfig: Path | None
    """None in a cluster: the pod's service account."""
    host: str
    port: int
    health_port: int
    tls_directory: Path
    tls_names: tuple[str, ...]
    """Names that the mounted certificate must be good for."""
    client_names: tuple[str, ...]
    """Names, of which a client's certificate must be good for one: those of the webhook."""
    advertise: str | None
    """`https://host:port` that others reach this replica's API by; None makes it of host and port."""
    namespace: str
    """Of the Lease."""
    lease: str
    page: tuple[str, int] | None
    """Where the page is served; beyond loopback over TLS, and to tokens that may list GpuLedgers. None for
    no page."""
    stop_delay_seconds: float
    lease_timing: LeaseTiming
    watch_timing: Timing
    names: ResourceNames
    """Names of the resources that are slices."""
    installation: Installation | None = None
    """Whose caBundle is kept; None leaves it to others."""
    rotation: RotationSettings | None = None
    """Issue and rotate certificates too; None injects the CA of those that are mounted."""
    policies: Path | None = None
    """Policies by whose `replaceWaiting` pods are deleted, and whose last good set webhooks get that start on
    a broken one; None deletes and gives none."""
    policies_config_map: str | None = None
    """Name of the ConfigMap in `namespace` that they come from: Events on it tell what is wrong with them."""
    geometry: GeometryOptions | None = None
    """Divide the MIG cards of labelled nodes on demand; None leaves them alone."""
    dra_driver: str | None = DRA_DRIVER
    """DRA driver whose GPUs are compared with those of device plugins; None compares none."""
    agents: AgentPods | None = None
    """Pods of the agent's DaemonSet: its nodes are held until their agents serve; None holds none."""
