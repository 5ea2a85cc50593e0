"""Where an API server is, and how to authenticate: as the service account of this pod, or by a kubeconfig."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_ERROR = 300
"""Characters of an error of a kubeconfig that are repeated."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoApiServerError(Exception):
    """The configuration does not say where the API server is, or how to authenticate."""


async def nobody() -> str | None:
    """Authenticate as nobody, or by the client certificate of the TLS context."""
    return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server and the credentials of its user."""

    url: str
    """Without a slash at its end."""
    tls: ssl.SSLContext | None = None
    """With the client certificate, if there is one; None for plain HTTP."""
    authorization: Callable[[], Awaitable[str | None]] = nobody
    """Called for each request; the value of the header Authorization, or None."""
    tls_name: str | None = None
    """Name in the server's certificate, if it is not the URL's."""
    proxy: str | None = None


def of_service_account(
    folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ
) -> Endpoint:
    """Return the API server of the pod that this process runs in.

    Raises:
        NoApiServerError: it does not run in a pod with a service account.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise _unusable("this is no pod of a cluster")
    file = folder / "token"

    async def authorization() -> str:
        # The kubelet replaces the file before its token expires.
        return f"Bearer {file.read_text().strip()}"

    try:
        if not file.read_text().strip():
            raise _unusable(f"{file} is empty")
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except OSError as error:
        raise _unusable(f"{folder}: {error.strerror or error}") from error
    return Endpoint(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", tls, authorization
    )


async def of_kubeconfig(file: Path, context: str | None = None) -> Endpoint:
    """Return the API server of a kubeconfig's context; None means its current one.

    Raises:
        NoApiServerError: the file is missing or unusable.
    """
    if not file.is_file():  # noqa: ASYNC240 nothing else runs before there is a connection
        raise _unusable(f"there is no kubeconfig {file}")
    # Here and not above: the package takes 20 MB of every process that loads it, and pods never need it.
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes.aio.config import ConfigException, load_kube_config  # noqa: PLC0415
    from yaml import YAMLError  # noqa: PLC0415

    configuration = Configuration()
    load: Any = load_kube_config  # without types in the package
    # The package takes a file of another shape apart without looking.
    shapes = (TypeError, AttributeError, KeyError, ValueError)
    try:
        await load(str(file), context=context, client_configuration=configuration, persist_config=False)
        return _endpoint(configuration)
    except shapes as error:
        raise _unusable(f"kubeconfig {file} is damaged: compare it with one that kubectl wrote") from error
    except (ConfigException, YAMLError, OSError) as error:
        why = " ".join(str(error).split())[:MAX_ERROR] or type(error).__name__
        raise _unusable(f"kubeconfig {file}: {why}") from error


def _endpoint(configuration: Any) -> Endpoint:
    """Take over what the package read.

    Raises:
        OSError: certificates cannot be read or do not fit their key.
    """
    url = configuration.host.rstrip("/")

    async def authorization() -> str | None:
        header: str | None = await configuration.get_api_key_with_prefix("BearerToken")
        return header

    tls = _tls(configuration) if url.startswith("https:") else None
    return Endpoint(url, tls, authorization, configuration.tls_server_name or None, configuration.proxy)


def _tls(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _unusable(why: str) -> NoApiServerError:
    hint = "run in a pod with a service account, or pass --kubeconfig FILE"
    return NoApiServerError(f"cannot find the API server: {why}; {hint}")
