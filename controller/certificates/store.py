"""Reads and writes the two Secrets and the caBundle, and reads the leaves that webhooks serve.

Each write replaces exactly the version that was read, or fails with ApiError 409.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from certs.leaf import service_names
from certs.observation import SecretContent
from cluster.kube_client import JSON_PATCH, TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import list_all, objects_at
from cluster.pod_touch import PodTouch
from kube.names import CERTIFICATE_ANNOTATION
from service.log import get_logger

FIELD_MANAGER = "fraction-injector-certificates"
DIAL_SECONDS = 3.0
_SERVED = ("ca.crt", "tls.crt", "injected-ca")
"""Data of `-tls` that the annotation of pods is computed from; the private key is left out."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Names of the objects that hold an installation's certificates."""

    namespace: str
    name: str
    """Name of the webhook configuration. Secrets and Services are named after it: `-ca`, `-tls`, `-webhook`,
    `-controller`."""
    endpoints: tuple[str, ...] = ()
    """`host:port` of webhooks outside the cluster; empty for those of the Service."""

    @property
    def webhook_service(self) -> str:
        """The Service of the webhook; the controller connects to its endpoints."""
        return f"{self.name}-webhook"


def issued_names(installation: Installation, more: Sequence[str]) -> tuple[str, ...]:
    """Return the DNS names that the leaf must cover: those of both Services, and `more`."""
    namespace = installation.namespace
    webhook = service_names(installation.webhook_service, namespace)
    controller = service_names(f"{installation.name}-controller", namespace)
    return tuple(dict.fromkeys((*webhook, *controller, *more)))


@dataclass(frozen=True, slots=True)
class Bundle:
    """The caBundle of the webhook configuration."""

    pem: bytes | None
    """None without a configuration; empty if it has no caBundle yet."""
    resource_version: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Secret(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] = {}


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str = ""


class _Entry(msgspec.Struct, rename="camel"):
    client_config: _ClientConfig


class _Configuration(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[_Entry] = []


class _Conditions(msgspec.Struct):
    serving: bool | None = None
    """None counts as true, as Kubernetes recommends."""


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class _Port(msgspec.Struct):
    name: str | None = None
    port: int | None = None


class _Slice(msgspec.Struct):
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


class CertificateStore:
    """Reads and writes the objects of one installation.

    Every method raises ApiError, OSError, TimeoutError or aiohttp.ClientError if a request fails.
    """

    def __init__(self, api: ApiServer, installation: Installation) -> None:
        self._api = api
        self.installation = installation
        self._secrets = f"/api/v1/namespaces/{installation.namespace}/secrets"
        configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        self._configuration = f"{configurations}/{installation.name}"
        mounted = "Secret", f"{installation.name}-tls"
        self._touch = PodTouch(api, installation.namespace, mounted, CERTIFICATE_ANNOTATION)
        self._log = get_logger("certificates")

    async def read_secret(self, suffix: str) -> tuple[SecretContent | None, str | None]:
        """Read `<name>-<suffix>` and its resource version; None and None if it does not exist."""
        data = await self._get(self._secret(suffix))
        if data is None:
            return None, None
        secret = msgspec.json.decode(data, type=_Secret)
        content = {key: base64.b64decode(value) for key, value in secret.data.items()}
        return SecretContent(content, secret.metadata.annotations), secret.metadata.resource_version

    async def exists(self) -> bool:
        """Whether either Secret exists, empty or not."""
        found = [await self._get(self._secret(suffix)) for suffix in ("tls", "ca")]
        return any(secret is not None for secret in found)

    async def write_secret(self, suffix: str, content: SecretContent, version: str | None) -> None:
        """Store exactly this data and these annotations; create the Secret if it did not exist.

        Raises:
            ApiError: 409 or 422 if the Secret is no longer the version that was read.
        """
        data = {key: base64.b64encode(value).decode() for key, value in content.data.items()}
        annotations = dict(content.annotations)
        if version is None:
            metadata = {"name": f"{self.installation.name}-{suffix}", "annotations": annotations}
            made = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
            await self._api.request("POST", self._secrets, body=made)
            return
        values = {"/metadata/annotations": annotations, "/data": data}
        await self._replace(self._secret(suffix), version, values)

    async def deliver(self, content: SecretContent) -> None:
        """Annotate every pod that mounts `-tls`, so that it gets this content at once."""
        served = b"\0".join(content.data.get(key, b"") for key in _SERVED)
        try:
            await self._touch.mark(hashlib.sha256(served).hexdigest()[:16])
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning(
                "pods are not annotated: they get the certificate in a minute or two", error=str(error)
            )

    async def read_bundle(self) -> Bundle:
        """Read the caBundle of the configuration's only entry."""
        data = await self._get(self._configuration)
        configuration = msgspec.json.decode(data, type=_Configuration) if data is not None else None
        if configuration is None or not configuration.webhooks:
            return Bundle(None)
        pem = base64.b64decode(configuration.webhooks[0].client_config.ca_bundle)
        return Bundle(pem, configuration.metadata.resource_version)

    async def write_bundle(self, pem: bytes, read: Bundle) -> None:
        """Store the caBundle by JSON Patch, because server-side apply would co-own the list's element.

        Raises:
            ApiError: 422 if the configuration is no longer the version that was read.
        """
        values = {"/webhooks/0/clientConfig/caBundle": base64.b64encode(pem).decode()}
        await self._replace(self._configuration, read.resource_version, values)

    async def _replace(self, path: str, version: str, values: Mapping[str, object]) -> None:
        """Set the values at these JSON pointers of the object, if it still is this version."""
        body: list[dict[str, object]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        ]
        body += [{"op": "add", "path": at, "value": value} for at, value in values.items()]
        query = {"fieldManager": FIELD_MANAGER}
        await self._api.request("PATCH", path, query=query, body=body, content_type=JSON_PATCH)

    async def served(self) -> dict[str, bytes | None]:
        """Dial every webhook that may get requests; None for one that does not answer."""
        endpoints = self.installation.endpoints or await self._endpoints()
        leaves = await asyncio.gather(*map(_dial, endpoints))
        return dict(zip(endpoints, leaves, strict=True))

    async def _endpoints(self) -> Sequence[str]:
        namespace, service = self.installation.namespace, self.installation.webhook_service
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        of_service = {"labelSelector": f"kubernetes.io/service-name={service}"}
        slices = await list_all(self._api, objects_at(path, _Slice, of_service))
        return [address for found in slices for address in _addresses(found)]

    async def _get(self, path: str) -> bytes | None:
        try:
            return await self._api.request("GET", path)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _secret(self, suffix: str) -> str:
        return f"{self._secrets}/{self.installation.name}-{suffix}"


def _addresses(found: _Slice) -> list[str]:
    port = next((port.port for port in found.ports or () if port.name == "https"), None)
    if port is None:
        return []
    endpoints = found.endpoints or ()
    hosts = [endpoint.addresses[0] for endpoint in endpoints if endpoint.conditions.serving is not False]
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]


async def _dial(endpoint: str) -> bytes | None:
    """Return the leaf that an endpoint serves, as PEM, with any issuer; None without an answer."""
    host, _, port = endpoint.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # The leaf is not verified because it is what we want to read: nothing is sent over this connection.
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
    except (OSError, TimeoutError):
        return None
    try:
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return ssl.DER_cert_to_PEM_cert(found).encode() if found else None
    finally:
        with contextlib.suppress(OSError):
            writer.transport.abort()
