"""The kubelet's device plugin interface for one resource name."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NoReturn

import grpc

from agent.cdi import CdiError, SliceSpecifications
from agent.gpu import Gpu
from agent.kubelet import KubeletError
from agent.kubelet_api import deviceplugin_pb2 as api
from agent.kubelet_checkpoint import SLICES_PER_GPU, Allocation, allocations_in
from agent.limits import refuse_conflict
from agent.parts import Agent
from agent.preparation import Preparation
from agent.shares import RefusedError, Share, preferred_ids, shares_of, slice_ids, uuid_of
from service.log import get_logger

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
Context = grpc.aio.ServicerContext[object, object]
_Given = list[tuple[frozenset[str], int | None]]
"""A container's allocations: device IDs of each resource, and the slices per GPU then, if known."""


class DevicePlugin:
    """Offers the slices of some GPUs under one name: of one in mode per-gpu, of all in mode pooled."""

    def __init__(
        self,
        resource: str,
        gpus: Sequence[Gpu],
        agent: Agent,
        preparation: Preparation,
        specifications: SliceSpecifications,
    ) -> None:
        self.resource = resource
        self.options = api.DevicePluginOptions(
            pre_start_required=True, get_preferred_allocation_available=len(gpus) > 1
        )
        self.streams = 0
        """ListAndWatch calls that are open."""
        self.stream_opened = asyncio.Event()
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._policy = agent.policy
        self._slices_per_gpu = agent.policy.slices_per_gpu
        self._state = agent.state
        self._preparation = preparation
        self._specifications = specifications
        self._kubelet = agent.kubelet
        self._metrics = agent.metrics
        self._log = get_logger("device plugin")

    @property
    def healthy_ids(self) -> frozenset[str]:
        """The slices that new pods can get."""
        return frozenset(each.ID for each in self._devices() if each.health == HEALTHY)

    async def GetDevicePluginOptions(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:  # noqa: ARG002, N802
        """Request a call before each start of a container, and one that prefers slices of one GPU."""
        return self.options

    async def ListAndWatch(  # noqa: N802
        self,
        request: api.Empty,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Yield all slices with their health, and again whenever that changes."""
        self.streams += 1
        self.stream_opened.set()
        try:
            seen = self._state.version
            sent = self._devices()
            yield api.ListAndWatchResponse(devices=sent)
            while True:
                seen = await self._state.next_version(seen)
                devices = self._devices()
                if devices != sent:
                    sent = devices
                    yield api.ListAndWatchResponse(devices=sent)
        finally:
            self.streams -= 1

    async def GetPreferredAllocation(  # noqa: N802
        self,
        request: api.PreferredAllocationRequest,
        context: Context,  # noqa: ARG002
    ) -> api.PreferredAllocationResponse:
        """Prefer slices of one GPU for each container."""
        chosen = [
            preferred_ids(
                each.available_deviceIDs,
                each.must_include_deviceIDs,
                each.allocation_size,
                self._slices_per_gpu,
            )
            for each in request.container_requests
        ]
        responses = [api.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in chosen]
        return api.PreferredAllocationResponse(container_responses=responses)

    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        """Return each container's card and limit; refuse slices that span cards."""
        response = api.AllocateResponse()
        try:
            await self._preparation.check_files()
            for each in request.container_requests:
                shares = shares_of(
                    each.devices_ids, self._gpus, self._slices_per_gpu, self._policy.reserve_mib
                )
                self._refuse_unhealthy(shares)
                response.container_responses.append(self._answer(shares))
                for share in shares:
                    given = {"slices": share.slices, "memory_mib": share.memory_mib}
                    self._log.info("allocated", resource=self.resource, gpu=share.gpu.index, **given)
        except (RefusedError, CdiError) as error:
            self._metrics.allocated(self.resource, "refused")
            self._log.warning("allocation refused", resource=self.resource, error=str(error))
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
        self._metrics.allocated(self.resource, "allocated")
        return response

    def _answer(self, shares: Iterable[Share]) -> api.ContainerAllocateResponse:
        names = []
        for share in shares:
            limit = self._specifications.name_of(share)
            names += [self._preparation.names.names[share.gpu.uuid], *([limit] if limit is not None else [])]
        return api.ContainerAllocateResponse(
            annotations={SLICES_PER_GPU: str(self._slices_per_gpu)},
            cdi_devices=[api.CDIDevice(name=name) for name in names],
        )

    def _refuse_unhealthy(self, shares: Iterable[Share]) -> None:
        """Refuse a GPU that became unhealthy after the kubelet chose it.

        Raises:
            RefusedError: a GPU is unhealthy.
        """
        for share in shares:
            if (why := self._state.unhealthy.get(share.gpu.uuid)) is not None:
                raise RefusedError(f"GPU {share.gpu.index} is unhealthy ({why}): create the pod again")

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Refuse to start a container whose GPUs, of all its resources, cannot be limited together."""
        ids = frozenset(request.devices_ids)
        try:
            await self._preparation.check_files()
            for devices in await self._given_with(ids):
                refuse_conflict(self._shares_of(devices), self._policy)
        except RefusedError as error:
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except KubeletError as error:
            await _refuse(context, grpc.StatusCode.UNAVAILABLE, str(error))
        return api.PreStartContainerResponse()

    async def _given_with(self, ids: frozenset[str]) -> list[_Given]:
        """Return all allocations of each container that has these device IDs of the resource.

        The kubelet's file also has init containers, which pod-resources leaves out. Several containers of a
        pod may have the same IDs, one after the other.

        Raises:
            KubeletError: neither the file nor pod-resources has them.
        """
        allocations = await asyncio.to_thread(allocations_in, self._kubelet.plugins)
        containers: defaultdict[tuple[str, str], list[Allocation]] = defaultdict(list)
        for each in allocations:
            containers[each.pod, each.container].append(each)
        found = [
            [(each.ids, each.slices_per_gpu) for each in given]
            for given in containers.values()
            if any(each.resource == self.resource and each.ids == ids for each in given)
        ]
        if found:
            return found
        holders = [holder for holder in await self._kubelet.holders() if ids <= holder.ids]
        return [[(frozenset(of_one), None) for _, of_one in holder.devices] for holder in holders]

    def _shares_of(self, given: _Given) -> list[Share]:
        gpus: Mapping[str, Gpu] = {gpu.uuid: gpu for gpu in self._state.gpus}
        shares: list[Share] = []
        for ids, slices_per_gpu in given:
            if any(uuid_of(each) in gpus for each in ids):
                # A container that got its slices under another policy may restart.
                with contextlib.suppress(RefusedError):
                    size = slices_per_gpu or self._slices_per_gpu
                    shares += shares_of(ids, gpus, size, self._policy.reserve_mib)
        return shares

    def _devices(self) -> list[api.Device]:
        devices = []
        for gpu in self._gpus.values():
            health = UNHEALTHY if gpu.uuid in self._state.unhealthy else HEALTHY
            nodes = [api.NUMANode(ID=gpu.numa_node)] if gpu.numa_node is not None else []
            topology = api.TopologyInfo(nodes=nodes) if nodes else None
            ids = slice_ids(gpu, self._slices_per_gpu)
            devices += [api.Device(ID=each, health=health, topology=topology) for each in ids]
        return devices


async def _refuse(context: Context, code: grpc.StatusCode, why: str) -> NoReturn:
    await context.abort(code, why)
    raise AssertionError("unreachable: abort raises")
