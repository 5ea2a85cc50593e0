"""Answers Allocate: what a container gets for a list of device IDs, with each device list strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.cdi import SliceSpecifications
from agent.device_nodes import DeviceNodes
from agent.gpu import Gpu
from agent.kubelet_api.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse, DeviceSpec
from agent.kubelet_api.deviceplugin_pb2 import Mount as KubeletMount
from agent.limits import conflict, mounts, variables
from agent.options import DeviceListStrategy
from agent.settings import AgentPolicy
from agent.shares import RefusedError, Share, shares_of
from kube.device_keys import VISIBLE_DEVICES

SLICES_PER_GPU = "clearml-injector.io/slices-per-gpu"
"""Annotation of each answer: the kubelet stores it with the allocation, and runtimes ignore it."""
VISIBLE_MOUNTS = "/var/run/nvidia-container-devices"
"""NVIDIA's runtime reads the entries of this folder as a list of GPUs."""


class Allocator:
    """Turns device IDs into the kubelet's answer for a container.

    Args:
        policy: policy of the node.
        strategy: how a container gets a GPU.
        state_dir: folder with the limiter's library, at the same path on the node.
        names: current CDI device of each card, by UUID; only for the strategy cdi.
        specifications: our own, for the strategy cdi.
        device_nodes: device nodes of the cards, for the other strategies; None for none.
    """

    def __init__(  # noqa: PLR0913, PLR0917 what an answer needs
        self,
        policy: AgentPolicy,
        strategy: DeviceListStrategy,
        state_dir: str,
        names: Mapping[str, str],
        specifications: SliceSpecifications | None,
        device_nodes: DeviceNodes | None = None,
    ) -> None:
        self._policy = policy
        self._strategy = strategy
        self._state_dir = state_dir
        self._names = names
        self._specifications = specifications
        self._device_nodes = device_nodes

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
        for node in self._device_nodes.of(share.gpu) if self._device_nodes is not None else ():
            response.devices.append(
                DeviceSpec(container_path=node.container_path, host_path=node.host_path, permissions="rw")
            )
        for mount in mounts(share, self._policy.limiter, self._state_dir, own_cache=False):
            response.mounts.append(
                KubeletMount(
                    container_path=mount.container_path, host_path=mount.host_path or "", read_only=True
                )
            )
