"""A representative pod for a cache key: the rules decide every pod with that key like this one."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.admission.json_patch import encode
from webhook.admission.pod import LABEL, MEMORY_LABEL, Pod
from webhook.patch_cache.amounts import with_marks
from webhook.patch_cache.key import Key
from webhook.patch_cache.partial_pod import CONTAINER, SPEC
from webhook.patch_cache.table import Part
from webhook.patch_cache.template import MARK

_decode = msgspec.json.Decoder(Pod).decode


def representative_pod(body: bytes) -> Pod:
    """Return the pod of a body.

    Raises:
        msgspec.ValidationError: JSON in the key is not valid for its field.
        RecursionError: JSON in the key is nested too deeply.
    """
    return _decode(body)


def representative_body(key: Key) -> bytes:
    """Return the pod of a key as JSON; all names and amounts in it are marks."""
    labels = {LABEL: key.label, MEMORY_LABEL: key.memory_label}
    asked = {name: text for name, text in labels.items() if text is not msgspec.UNSET}
    metadata: dict[str, Any] = {"name": MARK, "labels": asked}
    if key.has_annotations:
        metadata["annotations"] = {}
    first, own = len(key.init), with_marks(key.resources)
    spec = {
        **SPEC.example(key.spec),
        "containers": [
            _container(part, f"{MARK}{at}{MARK}", own[first + at]) for at, part in enumerate(key.regular)
        ],
        "initContainers": [
            _container(part, f"{MARK}init-{at}{MARK}", own[at]) for at, part in enumerate(key.init)
        ],
    }
    return encode({"metadata": metadata, "spec": spec})


def _container(part: Part, name: str, resources: bytes) -> dict[str, Any]:
    own = {"resources": msgspec.Raw(resources)} if resources else {}
    return {"name": name, **CONTAINER.example(part), **own}
