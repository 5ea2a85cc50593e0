"""Delivers a new certificate to running pods at once: the kubelet takes a minute or more."""

from __future__ import annotations

import hashlib

from certs.observation import SecretContent
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.pod_touch import PodTouch
from kube.names import CERTIFICATE_ANNOTATION
from service.log import get_logger

_SHOWN = ("ca.crt", "tls.crt", "injected-ca")
"""Data of the Secret that the annotation is computed from; the private key is left out."""


class CertificateDelivery:
    """Touches the pods of a namespace that mount a Secret."""

    def __init__(self, api: ApiServer, namespace: str, secret: str) -> None:
        self._touch = PodTouch(api, namespace, ("Secret", secret), CERTIFICATE_ANNOTATION)
        self._log = get_logger("certificates")

    async def trigger(self, content: SecretContent) -> None:
        """Annotate every pod that lacks this content; if that fails, the kubelet delivers it in a minute."""
        shown = b"\0".join(content.data.get(key, b"") for key in _SHOWN)
        try:
            await self._touch.mark(hashlib.sha256(shown).hexdigest()[:16])
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning(
                "pods are not annotated: they get the certificate in a minute or two", error=str(error)
            )
