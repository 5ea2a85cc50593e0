"""Delivers a new certificate to running pods at once: the kubelet alone takes a minute and more."""

from __future__ import annotations

import hashlib

from certs.observation import SecretContent
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.pod_touch import PodTouch
from kube.names import CERTIFICATE_ANNOTATION
from service.log import get_logger

_SHOWN = ("ca.crt", "tls.crt", "injected-ca")
"""What the annotation is made of: nothing of the key."""


class CertificateDelivery:
    """Touches the pods of a namespace that mount a Secret."""

    def __init__(self, api: ApiServer, namespace: str, secret: str) -> None:
        self._touch = PodTouch(api, namespace, ("Secret", secret), CERTIFICATE_ANNOTATION)
        self._log = get_logger("certificates")

    async def hasten(self, content: SecretContent) -> None:
        """Touch every pod that was not yet for this content; where that fails, the kubelet takes a minute."""
        shown = b"\0".join(content.data.get(key, b"") for key in _SHOWN)
        try:
            await self._touch.mark(hashlib.sha256(shown).hexdigest()[:16])
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning(
                "pods are not touched: they get the certificate in a minute or two", error=str(error)
            )
