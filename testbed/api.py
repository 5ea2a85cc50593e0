"""A thin JSON client of the API server: what a test writes and reads back, as the server holds it."""

import ssl
from collections.abc import Mapping
from typing import Any, Self

import httpx

Object = dict[str, Any]

CLUSTER_SCOPED = {
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}
AT_ONCE = {"gracePeriodSeconds": "0"}
MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused; `code` is the HTTP status, the text its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Api:
    """Objects by (apiVersion, kind, namespace, name), as plain dicts. Safe to use from several threads.

    Args:
        url: Of the API server.
        ca_file: PEM file of the CA that signed its certificate.
        token: Bearer token of the user to be.
    """

    def __init__(self, url: str, ca_file: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=ca_file),
            # One that expires is closed by a thread while another, which was just given it, begins to use it:
            # the next connection gets the same descriptor, and each reads the other's bytes.
            limits=httpx.Limits(max_connections=None, keepalive_expiry=None),
            timeout=120,
            trust_env=False,
        )

    def create(self, obj: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False) -> Object:
        """Create an object and return what was stored (or, in a dry run, would be).

        Raises:
            ApiError: Refused, by validation, admission or a webhook.
        """
        path = _collection(obj["apiVersion"], obj["kind"], namespace)
        return self.call("POST", path, obj, {"dryRun": "All"} if dry_run else {})

    def refusal(self, obj: Mapping[str, Any], namespace: str = "", *, dry_run: bool = True) -> str:
        """What is said of an object that cannot be created; nothing where it can."""
        try:
            self.create(obj, namespace, dry_run=dry_run)
        except ApiError as error:
            return str(error)
        return ""

    def exists(self, kind: str, name: str, namespace: str = "", api: str = "v1") -> bool:
        """Whether there is an object."""
        try:
            self.get(kind, name, namespace, api)
        except ApiError:
            return False
        return True

    def get(self, kind: str, name: str, namespace: str = "", api: str = "v1") -> Object:
        """Read one object; ApiError 404 if there is none."""
        return self.call("GET", f"{_collection(api, kind, namespace)}/{name}")

    def events(self, namespace: str, about: str = "", reason: str = "") -> list[Object]:
        """Read the Events of a namespace about an object of this name, with this reason; empty means any.

        The server filters: all tests share it, and Events of others may name no object at all.
        """
        asked = {"involvedObject.name": about, "reason": reason}
        selector = ",".join(f"{field}={value}" for field, value in asked.items() if value)
        answer = self.call("GET", _collection("v1", "Event", namespace), query={"fieldSelector": selector})
        return list(answer["items"])

    def list(self, kind: str, namespace: str = "", api: str = "v1", *, labels: str = "") -> list[Object]:
        """Read all objects of a namespace, or of all where it is empty, that a label selector matches."""
        answer = self.call("GET", _collection(api, kind, namespace), query={"labelSelector": labels})
        return list(answer["items"])

    def patch(self, kind: str, name: str, change: Any, namespace: str = "", api: str = "v1") -> Object:
        """Apply a JSON merge patch."""
        return self.call("PATCH", f"{_collection(api, kind, namespace)}/{name}", change, content=MERGE_PATCH)

    def delete(self, kind: str, name: str, namespace: str = "", api: str = "v1") -> None:
        """Delete an object at once; no word if there is none."""
        try:
            self.call("DELETE", f"{_collection(api, kind, namespace)}/{name}", query=AT_ONCE)
        except ApiError as error:
            if error.code != httpx.codes.NOT_FOUND:
                raise

    def delete_all(self, kind: str, namespace: str, api: str = "v1") -> None:
        """Delete every object of a kind in a namespace at once."""
        self.call("DELETE", _collection(api, kind, namespace), query=AT_ONCE)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Object:
        """One request with a JSON answer, for paths that have no method here, such as subresources.

        Raises:
            ApiError: The answer's status is not a success.
        """
        answer = self._client.request(
            method, path, json=body, params=dict(query or {}), headers={"Content-Type": content}
        )
        found: Object = answer.json()
        if answer.is_error:
            raise ApiError(answer.status_code, found.get("message", answer.text))
        return found

    def ready(self) -> bool:
        """Whether the API server says that all its parts are up."""
        try:
            return self._client.get("/readyz").is_success
        except httpx.TransportError:
            return False

    def __enter__(self) -> Self:
        """Nothing more to do: connections open as needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()


def _collection(api: str, kind: str, namespace: str) -> str:
    plural = kind.lower()
    ending = "es" if plural.endswith("s") else "s"
    plural = plural[:-1] + "ies" if plural.endswith("y") else plural + ending
    scope = f"/namespaces/{namespace}" if namespace and kind not in CLUSTER_SCOPED else ""
    return f"{'/api' if '/' not in api else '/apis'}/{api}{scope}/{plural}"
