"""Answers Allocate: what a container gets for a list of device IDs, with each device list strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.cdi import SliceSpecifications
from agent.gpu import Gpu
from agent.kubelet_api.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse, DeviceSpec
from agent.kubelet_api.deviceplugin_pb2 import Mount as KubeletMount
from agent.limits import conflict, mounts, variables
from agent.options import AgentOptions
from agent.settings import AgentPolicy
from agent.shares import RefusedError, Share, shares_of
from kube.device_keys import VISIBLE_DEVICES

SLICES_PER_GPU = "clearml-injector.io/slices-per-gpu"
"""Annotation of each answer: the kubelet stores it with the allocation, and runtimes ignore it."""
VISIBLE_MOUNTS = "/var/run/nvidia-container-devices"
"""NVIDIA's runtime reads the entries of this folder as a list of GPUs."""
CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes that belong to no card; a container gets those that exist on the node."""


class Allocator:
    """Turns device IDs into the kubelet's answer for a container."""

    def __init__(
        self,
        policy: AgentPolicy,
        options: AgentOptions,
        names: Mapping[str, str],
        specifications: SliceSpecifications | None,
    ) -> None:
        self._policy = policy
        self._options = options
        self._strategy = options.strategy
        self._names = names
        self._specifications = specifications

    def shares(
        self, ids: Iterable[str], gpus: Mapping[str, Gpu], slices_per_gpu: int | None = None
    ) -> list[Share]:
        """Return the shares that the device IDs of one resource stand for.

        Args:
            ids: device IDs of one Allocate.
            gpus: GPUs of the resource, by UUID.
            slices_per_gpu: number at the time of the allocation; None for the policy's.

        Raises:
            RefusedError: they cannot be allocated together.
        """
        size = slices_per_gpu or self._policy.slices_per_gpu
        return shares_of(ids, gpus, size, self._policy.reserve_mib)

    def answer(self, shares: Iterable[Share]) -> ContainerAllocateResponse:
        """Return what a container gets for the shares of one resource.

        Raises:
            CdiError: a missing specification cannot be written again.
        """
        response = ContainerAllocateResponse()
        response.annotations[SLICES_PER_GPU] = str(self._policy.slices_per_gpu)
        for share in shares:
            if self._strategy == "cdi":
                self._add_cdi(response, share)
            else:
                self._add_legacy(response, share)
        return response

    def refuse_conflict(self, shares: Iterable[Share]) -> None:
        """Refuse shares of one container, of all its resources, that no variables can express together.

        Raises:
            RefusedError: two GPUs need different values of one variable.
        """
        wanted = [(share, self._variables(share)) for share in shares]
        if (why := conflict(wanted)) is not None:
            raise RefusedError(why)

    def _variables(self, share: Share) -> dict[str, str]:
        own_cache = self._strategy == "cdi"
        visible = {VISIBLE_DEVICES: share.gpu.uuid} if self._strategy == "envvar" else {}
        return visible | variables(share, self._policy, own_cache=own_cache)

    def _add_cdi(self, response: ContainerAllocateResponse, share: Share) -> None:
        response.cdi_devices.append(CDIDevice(name=self._names[share.gpu.uuid]))
        name = self._specifications.name_of(share) if self._specifications is not None else None
        if name is not None:
            response.cdi_devices.append(CDIDevice(name=name))

    def _add_legacy(self, response: ContainerAllocateResponse, share: Share) -> None:
        named = response.envs.get(VISIBLE_DEVICES)
        response.envs.update(self._variables(share))
        if named is not None:  # several whole GPUs of one resource
            response.envs[VISIBLE_DEVICES] = f"{named},{share.gpu.uuid}"
        if self._strategy == "volume-mounts":
            path = f"{VISIBLE_MOUNTS}/{share.gpu.uuid}"
            response.mounts.append(KubeletMount(container_path=path, host_path="/dev/null", read_only=True))
        if self._options.device_nodes:
            response.devices.extend(device_nodes(share.gpu, self._options))
        for mount in mounts(share, self._policy.limiter, self._options.state_dir, own_cache=False):
            response.mounts.append(
                KubeletMount(
                    container_path=mount.container_path, host_path=mount.host_path or "", read_only=True
                )
            )


def device_nodes(gpu: Gpu, options: AgentOptions) -> list[DeviceSpec]:
    """Return the device nodes of a card and of the driver; none if the card's own does not exist.

    A container loses others when control groups are written again, such as by `systemctl daemon-reload`: its
    programs then get "Failed to initialize NVML: Unknown Error".
    """
    here, on_node = (Path(root) / "dev" for root in (options.driver_root, options.host_driver_root))
    card = f"nvidia{gpu.minor}"
    if not (here / card).exists():
        return []
    names = [card, *(name for name in CONTROL if (here / name).exists())]
    return [
        DeviceSpec(container_path=f"/dev/{name}", host_path=str(on_node / name), permissions="rw")
        for name in names
    ]
