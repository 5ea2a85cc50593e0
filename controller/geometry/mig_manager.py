"""Drives NVIDIA's MIG manager through the API: its ConfigMap and node labels."""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus
from typing import Any

import msgspec

from cluster.kube_client import MERGE_PATCH, ApiError, ApiServer
from cluster.listing import list_all, objects_at
from cluster.object_reader import ConfigMap
from controller.geometry.mig_config import KEY, MigConfigFile
from controller.watch.mig_facts import MigPodSpec, wanted_instances
from kube.names import (
    MIG_CHANGE_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_CONFIG_STATE_LABEL,
    MIG_DIVIDED_AT_ANNOTATION,
)
from kube.objects import PodStatus


class _Pod(msgspec.Struct):
    spec: MigPodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class MigManager:
    """Reads and writes the MIG manager's inputs.

    Every method raises ApiError, OSError, TimeoutError or aiohttp.ClientError if a request fails.
    """

    def __init__(self, api: ApiServer, namespace: str, config_map: str) -> None:
        self._api = api
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._name = config_map
        self._version = ""
        self._known: tuple[str | None, MigConfigFile] = None, MigConfigFile(None)

    @property
    def is_missing(self) -> bool:
        """Whether the ConfigMap did not exist when last read."""
        return not self._version

    async def read(self) -> MigConfigFile:
        """Read the configurations; the next write creates a missing ConfigMap.

        Raises:
            BrokenFileError: the ConfigMap holds something else.
        """
        try:
            reply = await self._api.request("GET", f"{self._maps}/{self._name}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._version = ""
            return MigConfigFile(None)
        found = msgspec.json.decode(reply, type=ConfigMap)
        self._version = found.metadata.resource_version
        text = (found.data or {}).get(KEY)
        if text != self._known[0]:
            # In a thread, because a file for thousands of nodes would block the event loop for too long.
            self._known = text, await asyncio.to_thread(MigConfigFile, text)
        return self._known[1].copy()

    async def write(self, file: MigConfigFile) -> None:
        """Replace the configurations that were last read.

        Raises:
            BrokenFileError: they are too large for a ConfigMap.
            ApiError: somebody else wrote meanwhile.
        """
        data = {KEY: await asyncio.to_thread(file.text)}
        if self.is_missing:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self._name}, "data": data}
            await self._api.request("POST", self._maps, body=body)
        else:
            body = {"metadata": {"resourceVersion": self._version}, "data": data}
            path = f"{self._maps}/{self._name}"
            await self._api.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def held(self, node: str) -> Counter[str]:
        """Return the instances that pods bound to a node hold, as the API server knows them now."""
        bound = objects_at("/api/v1/pods", _Pod, {"fieldSelector": f"spec.nodeName={node}"})
        held = Counter[str]()
        for pod in await list_all(self._api, bound):
            if pod.status.phase in ("Succeeded", "Failed"):
                continue
            held.update(dict(wanted_instances(pod.spec)))
        return held

    async def cordon(self, node: str, change: str) -> None:
        """Cordon a node before its cards are divided."""
        await self._patch(
            node,
            {"metadata": {"annotations": {MIG_CHANGE_ANNOTATION: change}}, "spec": {"unschedulable": True}},
        )

    async def uncordon(self, node: str, divided_at: str | None) -> None:
        """Undo `cordon`, and record when the node was divided, if it was."""
        annotations: dict[str, str | None] = {MIG_CHANGE_ANNOTATION: None}
        if divided_at is not None:
            annotations |= {MIG_DIVIDED_AT_ANNOTATION: divided_at}
        await self._patch(node, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": None}})

    async def ask(self, node: str, configuration: str) -> None:
        """Request a configuration, and clear the state of the previous one, which would look like its own."""
        labels = {MIG_CONFIG_LABEL: configuration, MIG_CONFIG_STATE_LABEL: "pending"}
        await self._patch(node, {"metadata": {"labels": labels}})

    async def _patch(self, node: str, body: dict[str, Any]) -> None:
        await self._api.request("PATCH", f"/api/v1/nodes/{node}", body=body, content_type=MERGE_PATCH)
