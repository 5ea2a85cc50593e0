"""Checks, field by field, if a JSON object of the pod is exactly what we would write."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from typing import Any

from kube.quantity import parse_quantity

Json = Mapping[str, Any]

TOKENS = "/var/run/secrets/"
"""The API server and cloud identity webhooks mount tokens below this path into every container."""
TOKEN_SOURCES = ("projected", "secret")
IDENTITY_VARIABLES = frozenset(
    {
        *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS"),
        *("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        *("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"),
    }
)
"""Variables about tokens that those webhooks add to every container; only the clouds' libraries read them."""
_KEPT = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")]
_FILLED_BY_OTHERS: Mapping[str, Collection[Any] | None] = {
    "name": None,
    "resources": None,
    "imagePullPolicy": None,
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "resizePolicy": (_KEPT, _KEPT[:1], _KEPT[1:]),
}
"""Fields of an init container that we do not write, or that a LimitRange, AlwaysPullImages or the API
server's defaults may set, and their possible values; None for any."""


def same(existing: Any, wanted: Any) -> bool:
    """Whether two JSON values are equal; the API server omits empty fields."""
    if isinstance(wanted, Mapping) and isinstance(existing, Mapping):
        return all(same(existing.get(key), wanted.get(key)) for key in existing.keys() | wanted.keys())
    if isinstance(wanted, list) and isinstance(existing, list):
        return len(existing) == len(wanted) and all(map(same, existing, wanted))
    if is_empty(wanted):
        return is_empty(existing)
    return type(existing) is type(wanted) and bool(existing == wanted)


def is_empty(value: Any) -> bool:
    """Whether a value equals an absent one. False does not: some fields are true by default."""
    return value is None or (isinstance(value, str | list | Mapping) and not value)


def volume_filled_by(container: Json, wanted: Json, path: str, volumes: Mapping[str, Json]) -> str | None:
    """Return the volume that an init container mounts at `path`, if the container otherwise equals `wanted`.

    `wanted` has no mounts. Other webhooks may only have added mounts of tokens, and variables about them.
    """
    said = {field: value for field, value in container.items() if not _is_filled_by_others(field, value)}
    mounts = said.pop("volumeMounts", None) or ()
    said["env"] = [entry for entry in said.get("env") or () if not is_about_identity(entry)]
    if not same(said, wanted):
        return None
    ours = [mount for mount in mounts if not is_token(mount, volumes)]
    if len(ours) != 1 or not same(ours[0], {"name": ours[0].get("name"), "mountPath": path}):
        return None
    return str(ours[0]["name"])


def is_token(mount: Json, volumes: Mapping[str, Json]) -> bool:
    """Whether a mount only gives read access to a token."""
    name, path = mount.get("name"), str(mount.get("mountPath"))
    return (
        path.startswith(TOKENS)
        and posixpath.normpath(path) == path
        and same(mount, {"name": name, "mountPath": path, "readOnly": True})
        and any(not is_empty(volumes.get(str(name), {}).get(source)) for source in TOKEN_SOURCES)
    )


def is_about_identity(variable: Json) -> bool:
    """Whether a variable, by its name, only describes a token."""
    name, value = variable["name"], variable.get("value")
    return name in IDENTITY_VARIABLES and same(variable, {"name": name, "value": value})


def is_empty_dir(volume: Json, size_limit: str) -> bool:
    """Whether a volume is an emptyDir on disk of that size, in any notation."""
    source = volume.get("emptyDir")
    if not isinstance(source, Mapping) or not _same_quantity(source.get("sizeLimit"), size_limit):
        return False
    written = {"name": volume["name"], "emptyDir": {"sizeLimit": source["sizeLimit"]}}
    return same(volume, written)


def _is_filled_by_others(field: str, value: Any) -> bool:
    values = _FILLED_BY_OTHERS.get(field, ())
    return values is None or value in values


def _same_quantity(existing: Any, wanted: str) -> bool:
    try:
        return parse_quantity(existing) == parse_quantity(wanted)
    except (TypeError, ValueError):
        return False
