"""Names the field that makes an object too large, without decoding what it contains."""

from __future__ import annotations

from typing import Any

import msgspec

_MAX_OBJECTS = 10_000
"""In a list of containers that are told apart: each takes memory and time."""


def _struct(**fields: tuple[Any, Any]) -> Any:
    """Return a type with these fields, each with its type and default; others in the JSON are skipped."""
    members = [(name, of, default) for name, (of, default) in fields.items()]
    return msgspec.defstruct("_Part", members, gc=False)


def _unread(*names: str) -> Any:
    return _struct(**dict.fromkeys(names, (msgspec.Raw, msgspec.Raw())))


_METADATA = _unread("annotations", "finalizers", "labels", "managedFields", "ownerReferences")
_SPEC = _unread(
    "affinity", "containers", "hostAliases", "initContainers", "nodeSelector", "resourceClaims", "template",
    "tolerations", "topologySpreadConstraints", "volumes",
)  # fmt: skip
_CONTAINER = _unread(
    "args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "ports", "readinessProbe", "resources",
    "startupProbe", "volumeDevices", "volumeMounts",
)  # fmt: skip


_OBJECT = _struct(metadata=(_METADATA | None, None), spec=(_SPEC | None, None))
_REVIEW = _struct(request=(_struct(object=(_OBJECT, None)), None))
_review = msgspec.json.Decoder(_REVIEW)
_list = msgspec.json.Decoder(list[msgspec.Raw])
_container = msgspec.json.Decoder(_CONTAINER)


def longest_field(body: bytes) -> tuple[str, int]:
    """Return the path of the longest field of a review's object, and its bytes; "metadata" if none is known.

    Of a list of containers, it is the longest field of the longest one, unless there are very many objects.
    """
    path, text = "metadata", body
    try:
        found = getattr(_review.decode(body).request, "object", None) or _OBJECT()
        path, text = _longest({**_fields("metadata", found.metadata), **_fields("spec", found.spec)})
        if path in {"spec.containers", "spec.initContainers"} and text.count(b"{") <= _MAX_OBJECTS:
            every = {f"{path}[{at}]": bytes(each) for at, each in enumerate(_list.decode(text))}
            path, text = _longest(every)
            path, text = _longest(_fields(path, _container.decode(text)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return path, len(text)


def _fields(path: str, part: msgspec.Struct | None) -> dict[str, bytes]:
    names = part.__struct_fields__ if part is not None else ()
    return {f"{path}.{name}": bytes(getattr(part, name)) for name in names}


def _longest(texts: dict[str, bytes]) -> tuple[str, bytes]:
    return max(texts.items(), key=lambda each: len(each[1]), default=("metadata", b""))
