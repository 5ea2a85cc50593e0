"""Annotates running pods that mount a Secret or ConfigMap, so that the kubelet updates the mount at once.

The kubelet refreshes a pod's mounted Secrets and ConfigMaps when the pod changes; otherwise after a minute or
more. An annotation is such a change, and it can be written through the subresource `status`, with which
nothing that runs in a pod can be changed.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from cluster.kube_client import MERGE_PATCH, ApiError, ApiServer
from cluster.listing import list_all, objects_at


class _Owner(msgspec.Struct):
    kind: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []


class _SecretSource(msgspec.Struct, rename="camel"):
    secret_name: str = ""


class _ConfigMapSource(msgspec.Struct):
    name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    secret: _SecretSource | None = None
    config_map: _ConfigMapSource | None = None

    @property
    def source(self) -> tuple[str, str] | None:
        if self.secret is not None:
            return "Secret", self.secret.secret_name
        return ("ConfigMap", self.config_map.name) if self.config_map is not None else None


class _Spec(msgspec.Struct):
    volumes: list[_Volume] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec

    @property
    def is_on_each_node(self) -> bool:
        return any(owner.kind == "DaemonSet" for owner in self.metadata.owner_references)


class PodTouch:
    """Annotates the pods of a namespace that mount one Secret or ConfigMap.

    Args:
        api: must have the right to list pods, and to patch their status.
        namespace: namespace of the pods.
        source: kind and name of the mounted object.
        annotation: name of the annotation.
    """

    def __init__(self, api: ApiServer, namespace: str, source: tuple[str, str], annotation: str) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._source = source
        self._annotation = annotation

    async def mark(self, mark: str) -> None:
        """Write the value `mark` to every pod that does not have it yet; pods of DaemonSets come last.

        Raises:
            ApiError: the API server rejects a request; for one pod, raised after the others are marked.
            OSError, TimeoutError, aiohttp.ClientError: it does not answer.
        """
        refusal: ApiError | None = None
        listed = await list_all(self._api, objects_at(self._pods, _Pod))
        for pod in sorted(listed, key=lambda pod: pod.is_on_each_node):
            is_marked = pod.metadata.annotations.get(self._annotation) == mark
            if is_marked or all(volume.source != self._source for volume in pod.spec.volumes):
                continue
            try:
                await self._write(pod.metadata.name, mark)
            except ApiError as error:
                refusal = error
        if refusal is not None:
            raise refusal

    async def _write(self, name: str, mark: str) -> None:
        body = {"metadata": {"annotations": {self._annotation: mark}}}
        path = f"{self._pods}/{name}/status"
        try:
            await self._api.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            # A pod that was deleted meanwhile needs no mark.
            if error.status != HTTPStatus.NOT_FOUND:
                raise
