"""Delivers a new certificate to running pods at once: the kubelet alone takes a minute and more.

It looks at a pod's mounted Secrets again when the pod changes. An annotation is such a change, and it can be
written through the subresource `status`, a right by which nothing of what runs in a pod can be changed.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus

import msgspec

from certs.observation import SecretContent
from controller.kube_client import MERGE_PATCH, TRANSPORT_ERRORS, ApiError, ApiServer
from kube.names import CERTIFICATE_ANNOTATION
from service.log import get_logger

_SHOWN = ("ca.crt", "tls.crt", "injected-ca")
"""What the annotation is made of: nothing of the key."""


class _Metadata(msgspec.Struct):
    name: str
    annotations: dict[str, str] = {}


class _SecretSource(msgspec.Struct, rename="camel"):
    secret_name: str = ""


class _Volume(msgspec.Struct):
    secret: _SecretSource | None = None


class _Spec(msgspec.Struct):
    volumes: list[_Volume] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec

    def mounts(self, secret: str) -> bool:
        return any(
            volume.secret is not None and volume.secret.secret_name == secret for volume in self.spec.volumes
        )


class _Pods(msgspec.Struct):
    items: list[_Pod]


class CertificateDelivery:
    """Touches the pods of a namespace that mount a Secret."""

    def __init__(self, api: ApiServer, namespace: str, secret: str) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._secret = secret
        self._log = get_logger("certificates")

    async def hasten(self, content: SecretContent) -> None:
        """Touch every pod that was not yet for this content; where that fails, the kubelet takes a minute."""
        mark = hashlib.sha256(b"\0".join(content.data.get(key, b"") for key in _SHOWN)).hexdigest()[:16]
        try:
            listed = msgspec.json.decode(await self._api.request("GET", self._pods), type=_Pods)
            for pod in listed.items:
                if pod.mounts(self._secret) and pod.metadata.annotations.get(CERTIFICATE_ANNOTATION) != mark:
                    await self._touch(pod.metadata.name, mark)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning(
                "pods are not touched: they get the certificate in a minute or two", error=str(error)
            )

    async def _touch(self, name: str, mark: str) -> None:
        body = {"metadata": {"annotations": {CERTIFICATE_ANNOTATION: mark}}}
        path = f"{self._pods}/{name}/status"
        try:
            await self._api.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            # A pod that went since it was listed needs no certificate, and the next one does.
            if error.status != HTTPStatus.NOT_FOUND:
                raise
