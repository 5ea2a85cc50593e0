"""A client of the API server with the few calls that an agent needs, by the standard library.

A full client would take a third of the agent's memory.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Collection
from pathlib import Path
from typing import Any

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CALL_SECONDS = 10.0
MAX_ANSWER = 4 * 1024 * 1024
MAX_MESSAGE = 512
"""Maximum characters of an error message: enough for the name of a field after that of a node."""
APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "fraction-injector-agent"
_OK = frozenset({http.HTTPStatus.OK, http.HTTPStatus.CREATED})


class ApiServerError(Exception):
    """The API server did not answer, or refused; the text says which.

    Attributes:
        status: HTTP status of its answer; None without one.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class ApiServerClient:
    """An API server, called from a thread. Every call opens a connection, because calls are minutes apart.

    Every call raises ApiServerError if there is no answer, or one that refuses it or is no object.

    Args:
        host: Name or address.
        port: Of HTTPS.
        credentials: Folder with `token` and `ca.crt`, which the kubelet renews.
    """

    def __init__(self, host: str, port: int, credentials: Path = SERVICE_ACCOUNT) -> None:
        self._host = host
        self._port = port
        self._credentials = credentials

    def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        return self._ask("GET", path, None)

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Write an object by server-side apply."""
        return self._ask("PATCH", f"{path}?fieldManager={FIELD_MANAGER}&force=true", body)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object in a collection, and return it as it was stored."""
        return self._ask("POST", path, body, "application/json")

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Replace an object, and return it as it was stored."""
        return self._ask("PUT", path, body, "application/json")

    def delete(self, path: str) -> None:
        """Delete an object, unless it is gone."""
        self._ask("DELETE", path, None, ok={*_OK, http.HTTPStatus.NOT_FOUND})

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object in a collection, unless it exists."""
        self._ask("POST", path, body, "application/json", ok={*_OK, http.HTTPStatus.CONFLICT})

    def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        kind: str = APPLY,
        ok: Collection[int] = _OK,
    ) -> dict[str, Any]:
        try:
            status, data = self._exchange(method, path, None if body is None else json.dumps(body), kind)
            answer = json.loads(data)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiServerError(f"{method} {path.partition('?')[0]}: {error}") from error
        if not isinstance(answer, dict) or status not in ok:
            message = answer.get("message", "") if isinstance(answer, dict) else ""
            what = f"the API server answered {status}: {str(message)[:MAX_MESSAGE]}"
            raise ApiServerError(what, status)
        return answer

    def _exchange(self, method: str, path: str, body: str | None, kind: str) -> tuple[int, bytes]:
        token = (self._credentials / "token").read_text().strip()
        context = ssl.create_default_context(cafile=str(self._credentials / "ca.crt"))
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=CALL_SECONDS, context=context
        )
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_ANSWER)
        finally:
            connection.close()
