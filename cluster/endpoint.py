"""Where an API server is, and how to authenticate; in a pod, as its service account."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def _unusable(why: str) -> NoApiServerError:
    hint = "run in a pod with a service account, or pass --kubeconfig FILE"
    return NoApiServerError(f"cannot find the API server: {why}; {hint}")
