"""The kubelet's interface of DRA drivers: claims are prepared before a pod starts, and unprepared after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import grpc

from agent.cdi import CdiError
from agent.dra.checkpoint import CheckpointError, PreparedClaim, PreparedClaims, PreparedDevice
from agent.dra.claim import ClaimRefusedError, read_claim
from agent.dra.resource_slice import device_name
from agent.dra.specifications import ClaimSpecifications
from agent.kubelet_api import dra_pb2
from agent.kubelet_api import pluginregistration_pb2 as registration
from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.parts import Agent
from agent.preparation import Preparation
from agent.shares import RefusedError
from kube.dra import DRIVER
from service.log import get_logger

SERVICE = "v1.DRAPlugin"
"""As the kubelet finds it among the versions that a driver supports."""
MAX_TEXT = 400
Context = grpc.aio.ServicerContext[object, object]
REFUSALS = (ClaimRefusedError, RefusedError, CdiError, CheckpointError)
"""Why a claim is not prepared, or not unprepared."""


class DraPlugin:
    """Answers the kubelet, which finds it at the path `endpoint`; the node's pool has the node's name."""

    def __init__(  # noqa: PLR0913, PLR0917 what a driver needs
        self,
        endpoint: str,
        agent: Agent,
        api: ApiServerClient,
        checkpoint: PreparedClaims,
        specifications: ClaimSpecifications,
        preparation: Preparation,
    ) -> None:
        self.on_registration: Callable[[str | None], None] = lambda _: None
        """Called when the kubelet has registered the driver, or with the reason why not."""
        self._endpoint = endpoint
        self._pool = agent.options.node or ""
        self._state = agent.state
        self._metrics = agent.metrics
        self._api = api
        self._checkpoint = checkpoint
        self._specifications = specifications
        self._preparation = preparation
        self._writing = asyncio.Lock()
        self._log = get_logger("claims")

    async def GetInfo(  # noqa: N802
        self,
        request: registration.InfoRequest,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> registration.PluginInfo:
        """Return where the driver is served."""
        return registration.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=self._endpoint, supported_versions=[SERVICE]
        )

    async def NotifyRegistrationStatus(  # noqa: N802
        self,
        request: registration.RegistrationStatus,
        context: Context,  # noqa: ARG002
    ) -> registration.RegistrationStatusResponse:
        """Take note of whether the kubelet registered the driver."""
        refused = request.error[:MAX_TEXT] or "the kubelet refused it"
        self.on_registration(None if request.plugin_registered else refused)
        return registration.RegistrationStatusResponse()

    async def NodePrepareResources(  # noqa: N802
        self,
        request: dra_pb2.NodePrepareResourcesRequest,
        context: Context,  # noqa: ARG002
    ) -> dra_pb2.NodePrepareResourcesResponse:
        """Return the CDI devices of claims, each with exactly its limit."""
        response = dra_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                devices = await self._prepare(claim)
            except REFUSALS as error:
                self._metrics.allocated(DRIVER, "refused")
                self._log.warning("claim refused", **_name(claim), error=str(error))
                response.claims[claim.uid].error = str(error)[:MAX_TEXT]
                continue
            self._metrics.allocated(DRIVER, "allocated")
            response.claims[claim.uid].devices.extend(devices)
        return response

    async def NodeUnprepareResources(  # noqa: N802
        self,
        request: dra_pb2.NodeUnprepareResourcesRequest,
        context: Context,  # noqa: ARG002
    ) -> dra_pb2.NodeUnprepareResourcesResponse:
        """Remove what was prepared for claims."""
        response = dra_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            response.claims[claim.uid].SetInParent()
            try:
                await self._unprepare(claim.uid)
            except REFUSALS as error:
                self._log.warning("claim not unprepared", **_name(claim), error=str(error))
                response.claims[claim.uid].error = str(error)[:MAX_TEXT]
                continue
            self._log.info("unprepared", **_name(claim))
        return response

    async def restore_while_serving(self) -> None:
        """Restore in a thread, with no claim being prepared or unprepared meanwhile; raises as `restore`."""
        async with self._writing:
            await asyncio.to_thread(self.restore)

    def restore(self) -> None:
        """Write the CDI devices of all prepared claims again, such as after a reboot has emptied the folder.

        Files of other claims are removed after a reboot; before, their containers may run.

        Raises:
            CdiError: the folder cannot be written.
        """
        for uid, claim in self._checkpoint.claims.items():
            self._specifications.write(uid, claim)
        if not self._checkpoint.is_of_this_boot:
            self._specifications.remove_others(self._checkpoint.claims.keys())

    async def _unprepare(self, uid: str) -> None:
        async with self._writing:
            # If the agent is killed in between, it writes the file again, and the kubelet asks again.
            await asyncio.to_thread(self._specifications.remove, uid)
            await asyncio.to_thread(self._checkpoint.remove, uid)
            await asyncio.to_thread(self._specifications.keep_amounts, self._checkpoint.claims.values())

    async def _prepare(self, named: dra_pb2.Claim) -> list[dra_pb2.Device]:
        await self._preparation.check_files()
        found = await asyncio.to_thread(self._found, named.namespace, named.name)
        cards = {device_name(gpu): gpu for gpu in self._state.gpus}
        claim = read_claim(found, named.uid, self._pool, cards)
        async with self._writing:
            if claim != self._checkpoint.claims.get(named.uid):
                self._refuse_unhealthy(claim.devices)
                self._refuse_other_amounts(named.uid, claim)
            # In this order nothing is on the node that a restarted agent does not know.
            await asyncio.to_thread(self._checkpoint.put, named.uid, claim)
            limits = await asyncio.to_thread(self._specifications.write, named.uid, claim)
        limited = [{"device": each.device, "memory_mib": each.memory_mib} for each in claim.devices]
        self._log.info("prepared", **_name(named), devices=limited)
        return [self._device(each, limit) for each, limit in zip(claim.devices, limits, strict=True)]

    def _found(self, namespace: str, name: str) -> dict[str, Any]:
        where = f"namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"
        try:
            return self._api.get(f"/apis/resource.k8s.io/v1/{where}")
        except ApiServerError as error:
            is_gone = error.status == HTTPStatus.NOT_FOUND
            why = "does not exist" if is_gone else f"cannot be read: {error}"
            raise ClaimRefusedError(f"the ResourceClaim {why}") from error

    def _refuse_unhealthy(self, devices: tuple[PreparedDevice, ...]) -> None:
        """Refuse a card that became unhealthy after the scheduler chose it; the pod waits."""
        for each in devices:
            if (why := self._state.unhealthy.get(each.gpu)) is not None:
                raise ClaimRefusedError(f"{each.device} is unhealthy ({why}): create the pod again")

    def _refuse_other_amounts(self, uid: str, prepared: PreparedClaim) -> None:
        """Refuse claims of one pod with different limits: a container with both would get one for all."""
        for other, claim in self._checkpoint.claims.items():
            if other != uid and claim.pod == prepared.pod and len(claim.amounts | prepared.amounts) > 1:
                raise ClaimRefusedError(
                    f"ResourceClaim {claim.name} of this pod has another amount of GPU memory: write both"
                    " requests into one ResourceClaim"
                )

    def _device(self, device: PreparedDevice, limit: str | None) -> dra_pb2.Device:
        card = self._preparation.names.names[device.gpu]
        return dra_pb2.Device(
            request_names=[device.request],
            pool_name=self._pool,
            device_name=device.device,
            cdi_device_ids=[card, *([limit] if limit is not None else [])],
            share_id=device.share_id,
        )


def _name(claim: dra_pb2.Claim) -> dict[str, str]:
    return {"namespace": claim.namespace, "claim": claim.name}
