"""A pod that has a form and nothing else: what the rules say of it holds for every pod of that form."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.admission.json_patch import encode
from webhook.admission.pod import LABEL, Pod
from webhook.patch_cache.key import ContainerForm, Form
from webhook.patch_cache.template import MARK

_decode = msgspec.json.Decoder(Pod).decode


def stand_in(form: Form) -> Pod:
    """Make the pod; marks are its names.

    Raises:
        msgspec.ValidationError: a JSON text of the form is not what the field takes.
        RecursionError: a JSON text of the form is nested too deep.
    """
    metadata: dict[str, Any] = {"name": MARK, "labels": {LABEL: form.label}}
    if form.has_annotations:
        metadata["annotations"] = {}
    spec: dict[str, Any] = {
        "containers": [_container(one, f"{MARK}{at}{MARK}") for at, one in enumerate(form.regular)],
        "initContainers": [_container(one, f"{MARK}init-{at}{MARK}") for at, one in enumerate(form.init)],
        "hostPID": form.has_host_pid,
    }
    if form.has_volumes:
        spec["volumes"] = [{"name": MARK}]
    if form.has_runtime_class:
        spec["runtimeClassName"] = MARK
    spec |= _present(nodeSelector=form.node_selector, tolerations=form.tolerations)
    return _decode(encode({"metadata": metadata, "spec": spec}))


def _container(form: ContainerForm, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "securityContext": {"privileged": form.is_privileged}}
    if form.has_env:
        container["env"] = [{"name": MARK}]
    if form.has_mounts:
        container["volumeMounts"] = [{"name": MARK, "mountPath": f"/{MARK}"}]
    if form.is_native_sidecar:
        container["restartPolicy"] = "Always"
    return container | _present(resources=form.resources)


def _present(**texts: bytes) -> dict[str, msgspec.Raw]:
    """Leave out what is absent."""
    return {name: msgspec.Raw(text) for name, text in texts.items() if text}
