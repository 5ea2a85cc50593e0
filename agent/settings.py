"""How an agent runs: its options, and the part of one policy that a node needs."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from service.log_options import LogFormat, LogLevel

DeviceListStrategy = Literal["cdi", "volume-mounts", "envvar"]
STRATEGIES: tuple[DeviceListStrategy, ...] = get_args(DeviceListStrategy)
CDI_DIRS = ("/etc/cdi", "/var/run/cdi")
APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)
"""Errors of programs, not of GPUs: NVIDIA's device plugin ignores the same."""
_RESTART_APP = (8, 11, 60, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94, 139)
_IGNORE = (63, 66, 67, 92, 93, 106, 107, 141, 160, 161)
RECOVERY_CHANGED = 154
"""Says that the driver asks for another recovery, or for none any more."""
SURVIVED_XIDS = frozenset({*_RESTART_APP, *range(96, 106), *range(126, 136), *_IGNORE, RECOVERY_CHANGED})
"""Errors after which a GPU goes on: what NVIDIA's Xid catalog says to do at once is RESTART_APP or IGNORE.

https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""


NO_LIMITER = "none"
"""Name of the part that sets nothing."""


class LimiterPart(msgspec.Struct, frozen=True):
    """What of a limiter is set on the node."""

    name: str
    env: tuple[tuple[str, str], ...] = ()
    """Names and values, with the placeholders of policies."""
    preload: str | None = None
    """Path of the library in a container."""
    library_path: str | None = None
    """Folder in a container that holds it."""
    cache_path: str | None = None
    """Folder in a container for the library's own accounts."""
    cache_size: str | None = None


class AgentPolicy(msgspec.Struct, frozen=True):
    """What a node needs to know of a policy."""

    name: str
    mode: str
    resource: str
    """Resource name; in mode per-gpu with {index} in it."""
    slices_per_gpu: int
    reserve_mib: int
    limiter: LimiterPart


class AgentOptions(msgspec.Struct, frozen=True):
    """How an agent runs."""

    policies: str
    policy: str
    kubelet_dir: str = "/var/lib/kubelet"
    state_dir: str = "/var/lib/clearml-injector"
    """Folder of the agent, at the same path on the node: holds the limiter's library."""
    cdi_dirs: tuple[str, ...] = CDI_DIRS
    """Folders that the runtime reads CDI specifications from; the agent writes its own into the last."""
    strategy: DeviceListStrategy = "cdi"
    cdi_enabled: bool = False
    """Whether the admin says that the runtime obeys CDI; the file is not read then."""
    runtime_file: str | None = None
    """Where `agent.ask_runtime` wrote what the runtime says of itself."""
    divide: tuple[str, ...] = ()
    """Cards that are divided into slices, by index, UUID or model; empty for all. The others stay whole."""
    library: str | None = None
    """Folder of the agent's pod with the limiter's library; None takes what lies in state_dir for it."""
    driver_limits: bool = False
    """Whether the driver is to hold shares too, where it can."""
    nvidia_ctk: str | None = None
    """NVIDIA's generator of CDI specifications, as this process sees it; None takes what others wrote."""
    nvidia_cdi_hook: str = "/usr/bin/nvidia-cdi-hook"
    """Program of NVIDIA's toolkit that the specification has the runtime run, as the node has it."""
    driver_root: str = "/"
    """Root of the driver's files, as this process sees it."""
    host_driver_root: str = "/"
    """The same, as the node has it."""
    ignored_xids: tuple[int, ...] = APPLICATION_XIDS
    container_logs: str = "/var/log/containers"
    """Folder of the kubelet's links to logs, which name containers by id."""
    proc: str = "/proc"
    """The node's processes, as this process sees them."""
    node: str | None = None
    """Name of this node, to write its GpuNode; None writes none."""
    host: str = "127.0.0.1"
    health_port: int = 9081
    log_level: LogLevel = "info"
    log_format: LogFormat = "auto"
