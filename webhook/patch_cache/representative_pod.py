"""A representative pod for a cache key: the rules decide every pod with that key like this one."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.admission.json_patch import encode
from webhook.admission.pod import LABEL, MEMORY_LABEL, Pod
from webhook.patch_cache.key import ContainerKey, Key
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
    """Return the pod of a key as JSON; all names in it are marks."""
    labels = {LABEL: key.label, MEMORY_LABEL: key.memory_label}
    asked = {name: text for name, text in labels.items() if text is not msgspec.UNSET}
    metadata: dict[str, Any] = {"name": MARK, "labels": asked}
    if key.has_annotations:
        metadata["annotations"] = {}
    spec: dict[str, Any] = {
        "containers": [_container(one, f"{MARK}{at}{MARK}") for at, one in enumerate(key.regular)],
        "initContainers": [_container(one, f"{MARK}init-{at}{MARK}") for at, one in enumerate(key.init)],
        "hostPID": key.has_host_pid,
    }
    if key.has_volumes:
        spec["volumes"] = [{"name": MARK}]
    if key.has_runtime_class:
        spec["runtimeClassName"] = MARK
    spec |= _present(nodeSelector=key.node_selector, tolerations=key.tolerations)
    return encode({"metadata": metadata, "spec": spec})


def _container(key: ContainerKey, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "securityContext": {"privileged": key.is_privileged}}
    if key.has_env:
        container["env"] = [{"name": MARK}]
    if key.has_mounts:
        container["volumeMounts"] = [{"name": MARK, "mountPath": f"/{MARK}"}]
    if key.is_native_sidecar:
        container["restartPolicy"] = "Always"
    return container | _present(resources=key.resources)


def _present(**texts: bytes) -> dict[str, msgspec.Raw]:
    """Return only the fields that are present."""
    return {name: msgspec.Raw(text) for name, text in texts.items() if text}
