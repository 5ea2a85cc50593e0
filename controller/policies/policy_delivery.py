"""Delivers changed policies to running pods within seconds; the kubelet needs a minute or more."""

from __future__ import annotations

import msgspec

from cluster.kube_client import METADATA_ONLY, TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.object_reader import StoredObject
from cluster.pod_touch import PodTouch
from kube.names import POLICIES_ANNOTATION
from service.log import get_logger


class PolicyDelivery:
    """Annotates the pods that mount the policies' ConfigMap after it changed."""

    def __init__(self, api: ApiServer, namespace: str, config_map: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{config_map}"
        self._touch = PodTouch(api, namespace, ("ConfigMap", config_map), POLICIES_ANNOTATION)
        self._seen: str | None = None
        self._delivered: str | None = None
        self._is_logged = False
        self._log = get_logger("policies")

    async def check(self) -> None:
        """Read the ConfigMap once; annotate pods if the check before saw the same new version.

        Kubelets watch the ConfigMap like this replica. A kubelet that has not seen the change yet would mount
        the old version.
        """
        try:
            cached = {"resourceVersion": "0"}
            reply = await self._api.request("GET", self._path, query=cached, accept=METADATA_ONLY)
            version = msgspec.json.decode(reply, type=StoredObject).metadata.resource_version
            if version == self._seen and version != self._delivered:
                await self._touch.mark(version)
                self._delivered = version
            self._seen = version
        except (ApiError, *TRANSPORT_ERRORS) as error:
            if not self._is_logged:
                text = "pods are not annotated: they get changed policies in a minute or two"
                self._log.warning(text, error=str(error))
            self._is_logged = True
        else:
            self._is_logged = False
