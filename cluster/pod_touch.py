"""Annotates running pods that mount a Secret or ConfigMap, so that the kubelet updates the mount at once.

The kubelet refreshes a pod's mounted Secrets and ConfigMaps when the pod changes; otherwise after a minute or
more. An annotation is such a change, and it can be written through the subresource `status`, with which
nothing that runs in a pod can be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from cluster.kube_client import MERGE_PATCH, ApiError, ApiServer
from cluster.listing import list_all, objects_at

_Pod = dict[str, Any]


def _is_on_each_node(pod: _Pod) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def _sources(pod: _Pod) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each Secret and ConfigMap that a volume of the pod is."""
    for volume in pod["spec"].get("volumes", ()):
        yield "Secret", volume.get("secret", {}).get("secretName", "")
        yield "ConfigMap", volume.get("configMap", {}).get("name", "")


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
        for pod in sorted(listed, key=_is_on_each_node):
            is_marked = pod["metadata"].get("annotations", {}).get(self._annotation) == mark
            if is_marked or self._source not in _sources(pod):
                continue
            try:
                await self._write(pod["metadata"]["name"], mark)
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
