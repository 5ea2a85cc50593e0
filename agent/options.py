"""The agent's command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from agent.divide import is_card_name
from agent.settings import APPLICATION_XIDS
from service.options import DEFAULT_POLICIES, LOOPBACK, Flag, HealthPort, LineFormat, MinimumLevel

Offer = Literal["device-plugin", "dra"]
DriverLimits = Literal["auto", "true", "false"]
UNUSED = "not used: "
"""Begin of the reason why the driver does not limit shares, where nobody said that it has to."""
CDI_DIRS = ("/etc/cdi", "/var/run/cdi")


def _path(text: str) -> str:
    """Return the path in its shortest form, such as without a slash at the end."""
    return str(Path(text))


def _card_name(text: str) -> str:
    if not is_card_name(text):
        rule = "names no card: write an index such as 0, a UUID such as GPU-..., or a model such as A100-40*"
        raise ValueError(f'--divide "{text}" {rule}')
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The agent's options. They are passed on as JSON, so paths are texts."""

    policies: Annotated[
        str,
        Flag("Directory of policy files.", metavar="DIR", default="the built-in default policy", parse=_path),
    ] = str(DEFAULT_POLICIES)
    policy: Annotated[
        str,
        Flag("Policy that gives resource names, slices, memory.reserveMiB and the limiter.", metavar="NAME"),
    ] = "default"
    offer: Annotated[
        Offer,
        Flag(
            "How the scheduler sees the GPUs: device-plugin (slices of resource names) or dra (Dynamic "
            "Resource Allocation, any MiB; Kubernetes 1.36; needs --node).",
        ),
    ] = "device-plugin"
    kubelet_dir: Annotated[
        str,
        Flag("The kubelet's root folder; k3s and MicroK8s may have another.", metavar="DIR", parse=_path),
    ] = "/var/lib/kubelet"
    state_dir: Annotated[
        str,
        Flag(
            "Folder of the agent, at the same path on the node; library/ holds the limiter's library.",
            metavar="DIR",
            parse=_path,
        ),
    ] = "/var/lib/clearml-injector"
    cdi_dirs: Annotated[
        tuple[str, ...],
        Flag(
            "Folder of CDI specifications: NVIDIA's may be in any, ours are written into the last.",
            name="--cdi-dir",
            metavar="DIR",
            default=", ".join(CDI_DIRS),
            parse=_path,
        ),
    ] = CDI_DIRS
    runtime_file: Annotated[
        str | None,
        Flag(
            "Version and CDI setting of the container runtime, as `python -m agent.ask_runtime SOCKET FILE` "
            "writes them: the agent itself never opens the runtime's socket.",
            metavar="FILE",
            default="none",
            parse=_path,
        ),
    ] = None
    cdi_enabled: Annotated[
        bool, Flag("You know that the container runtime obeys CDI: --runtime-file is not read.")
    ] = False
    divide: Annotated[
        tuple[str, ...],
        Flag(
            "Card to offer in slices, by index (0), UUID (GPU-...) or words of its model (A100-40*); the "
            "others stay whole, for another device plugin. Mode per-gpu only.",
            metavar="CARD",
            default="all",
            parse=_card_name,
        ),
    ] = ()
    library: Annotated[
        str | None,
        Flag(
            "Folder that no other process writes, with the limiter's library: it is copied to the node, and "
            "restored if it changes there.",
            metavar="DIR",
            default="library/ in --state-dir",
            parse=_path,
        ),
    ] = None
    driver_limits: Annotated[
        DriverLimits,
        Flag(
            "Let the driver limit shares too: auto where it can (615, control groups of version 2), NVIDIA's "
            "CDI devices have the hook for it (toolkit 1.20.1), and the node has /usr/bin/sh and sed; true "
            "without looking for these two; false nowhere.",
        ),
    ] = "auto"
    node_root: Annotated[
        str, Flag("Where the node's /usr/bin is visible, for --driver-limits.", metavar="DIR", parse=_path)
    ] = "/"
    unified_memory_mib: Annotated[
        int,
        Flag(
            "MiB that programs may use of a GPU without memory of its own, such as GB10: its driver does not "
            "report any.",
            metavar="MIB",
            default="no such GPU is offered",
            min=0,
        ),
    ] = 0
    nvidia_ctk: Annotated[
        str | None,
        Flag(
            "NVIDIA's nvidia-ctk, which writes a CDI specification of the cards, and again when the driver's "
            "files change. Without it, one must already exist.",
            metavar="FILE",
            default="none",
            parse=_path,
        ),
    ] = None
    nvidia_cdi_hook: Annotated[
        str,
        Flag(
            "NVIDIA's nvidia-cdi-hook, by its path on the node, for --nvidia-ctk.",
            metavar="FILE",
            parse=_path,
        ),
    ] = "/usr/bin/nvidia-cdi-hook"
    driver_root: Annotated[
        str,
        Flag("Root of the driver's files, for --nvidia-ctk.", metavar="DIR", parse=_path),
    ] = "/"
    host_driver_root: Annotated[str, Flag("Its path on the node.", metavar="DIR", parse=_path)] = "/"
    ignored_xids: Annotated[
        tuple[int, ...],
        Flag(
            "Xid that does not mean that the GPU is unhealthy.",
            name="--ignore-xid",
            metavar="NUMBER",
            default=", ".join(map(str, APPLICATION_XIDS)),
        ),
    ] = APPLICATION_XIDS
    node: Annotated[
        str | None,
        Flag(
            "Write the GpuNode of this node, by the service account of the pod.",
            metavar="NAME",
            default="none",
        ),
    ] = None
    host: Annotated[str, Flag("Address of the plain port.")] = LOOPBACK
    health_port: HealthPort = 9081
    log_level: MinimumLevel = "info"
    log_format: LineFormat = "auto"
    container_logs: str = "/var/log/containers"
    """Folder of the kubelet's links to logs, which name containers by ID."""
    proc: str = "/proc"
    """The node's processes, for this process."""

    def __post_init__(self) -> None:
        if self.offer == "dra" and self.node is None:
            raise ValueError("--offer dra needs --node")

    def without_driver(self, why: str) -> str:
        """Return what is reported where the driver does not limit shares: as a mistake only if it has to."""
        return why if self.driver_limits == "true" else f"{UNUSED}{why}"
