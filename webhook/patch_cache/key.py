"""The cache key of a pod: every field that its patch depends on, except names.

A pod has a key only if no rule must check a text in it. If a text could cause a denial, a removal or a merge
(a reserved variable, a hostPath, a mount below the limiter's path, one of our annotations), the pod has no
key, and the rules decide the pod itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kube.device_keys import DEVICE_LIST_MOUNT, is_reserved
from kube.names import ASKING_LABELS
from policies.model.allowances import OVERRIDE_ENV
from policies.model.effective import EffectivePolicy
from webhook.admission.annotations import PREFIX
from webhook.admission.environment import PRELOAD
from webhook.admission.host_paths import is_at_or_below, normalised, touches
from webhook.admission.limiter import MAX_CONTAINER_NAME, OUR_NAMES
from webhook.admission.placeholders import uses_namespace
from webhook.admission.pod import LABEL, MEMORY_LABEL
from webhook.admission.refusals import refuse_annotation, refused_capability
from webhook.admission.sizes import MAX_ANNOTATIONS, MAX_CAPABILITIES, MAX_VOLUMES
from webhook.patch_cache.harmless_names import HarmlessNames
from webhook.patch_cache.partial_pod import (
    CONTAINER,
    SPEC,
    VOLUME,
    PartialContainer,
    PartialMount,
    PartialPod,
    PartialVolume,
)
from webhook.patch_cache.table import Part
from webhook.patch_cache.template import holds_mark

Texts = tuple[bytes, ...]
"""Resources without amounts: before each amount a text and its name, and the last text."""


class Key(NamedTuple):
    """Every field of a pod on which its patch depends, except names, and amounts of CPU and memory."""

    policy: str
    namespace: str
    """Empty unless the policy's variables contain the namespace."""
    label: str | msgspec.UnsetType
    memory_label: str | msgspec.UnsetType
    has_annotations: bool
    spec: Part
    init: tuple[Part, ...]
    regular: tuple[Part, ...]
    resources: Texts
    """Of all containers, init containers first."""


_Label = str | msgspec.UnsetType
PlainKey = tuple[str, str, _Label, _Label, bool, Part, tuple[Part, ...], tuple[Part, ...], Texts]
"""A Key: plain tuples take a fifth of the time to create and compare."""
SizedKey = tuple[str, str, _Label, _Label, bool, Part, tuple[Part, ...], tuple[Part, ...], bytes]
"""A Key as read from a review: with all amounts, as JSON of each container with SEPARATOR between them."""
SEPARATOR = b"\0"
"""No JSON can contain it."""
_read_spec, _read_container, _names_of_volumes = SPEC.read, CONTAINER.read, VOLUME.names


class KeyReader:
    """Reads the keys of pods under one policy."""

    def __init__(self, policy: EffectivePolicy) -> None:
        limiter = policy.written_limiter
        variables = limiter.env + policy.env
        names = {variable.name for variable in variables} | {PRELOAD}
        places = [normalised(path) for path in limiter.mount_paths]
        self._policy = f"{policy.marker} {policy.queue or ''}"
        self._variables = HarmlessNames(lambda name: name in names or is_reserved(name))
        self._paths = HarmlessNames(lambda path: _is_one_of(normalised(path), places))
        self._uses_namespace = uses_namespace(variables)
        self._has_keys = not (
            policy.mode.is_claimed or limiter.image_pattern or limiter.images or holds_mark(policy)
        )

    def read(self, pod: PartialPod, namespace: str) -> SizedKey | None:
        """Return the key of a labelled pod; None if the rules must check the pod itself."""
        metadata, spec = pod.metadata, pod.spec
        if not self._has_keys or metadata is None or spec is None:
            return None
        of_spec, labels, annotations = _read_spec(spec), metadata.labels, metadata.annotations
        if of_spec is None or (spec.volumes and not _are_harmless_volumes(spec.volumes)):
            return None
        if annotations and not (
            len(annotations) <= MAX_ANNOTATIONS
            and (_ANNOTATIONS.issuperset(annotations) or _ANNOTATIONS.learn(annotations))
        ):
            return None
        if labels and not (_LABELS.issuperset(labels) or _LABELS.learn(labels)):
            return None
        names: set[str] = set()
        resources: list[msgspec.Raw] = []
        init = self._containers(spec.init_containers, names, resources) if spec.init_containers else ()
        regular = self._containers(spec.containers, names, resources) if spec.containers else None
        if init is None or regular is None or len(names) < len(init) + len(regular):
            return None
        return (
            self._policy,
            namespace if self._uses_namespace else "",
            labels.get(LABEL, msgspec.UNSET) if labels else msgspec.UNSET,
            labels.get(MEMORY_LABEL, msgspec.UNSET) if labels else msgspec.UNSET,
            annotations is not None,
            of_spec,
            init,
            regular,
            SEPARATOR.join(resources),
        )

    def _containers(
        self, containers: Sequence[PartialContainer], names: set[str], resources: list[msgspec.Raw]
    ) -> tuple[Part, ...] | None:
        parts = []
        for container in containers:
            part = _read_container(container)
            if part is None or self._needs_rules(container):
                return None
            names.add(container.name)
            resources.append(container.resources)
            parts.append(part)
        return tuple(parts)

    def _needs_rules(self, container: PartialContainer) -> bool:
        name, env, mounts = container.name, container.env, container.volume_mounts
        if OUR_NAMES in name or len(name) > MAX_CONTAINER_NAME:
            return True
        if env:
            names = [variable.name for variable in env]
            if not (self._variables.issuperset(names) or self._variables.learn(names)):
                return True
        if mounts and not self._are_harmless_mounts(mounts):
            return True
        path = container.termination_message_path
        if path is not None and path not in self._paths and not self._paths.learn((path,)):
            return True
        context = container.security_context
        added = context.capabilities.add if context is not None and context.capabilities is not None else None
        return added is not None and not _are_harmless_capabilities(added)

    def _are_harmless_mounts(self, mounts: Sequence[PartialMount]) -> bool:
        paths = self._paths
        for mount in mounts:
            if OUR_NAMES in mount.name or not (mount.mount_path in paths or paths.learn((mount.mount_path,))):
                return False
        return True


def _are_harmless_capabilities(capabilities: Sequence[str]) -> bool:
    return len(capabilities) <= MAX_CAPABILITIES and (
        _CAPABILITIES.issuperset(capabilities) or _CAPABILITIES.learn(capabilities)
    )


def _are_harmless_volumes(volumes: Sequence[PartialVolume]) -> bool:
    names, count = _names_of_volumes(volumes), len(volumes)
    if len(names) < count or OUR_NAMES in "\n".join(names):
        return False
    return count == 1 or (count <= MAX_VOLUMES and len(set(names)) == count)


def _is_one_of(path: str, places: Sequence[str]) -> bool:
    if touches(path, OVERRIDE_ENV) or path.startswith(DEVICE_LIST_MOUNT):
        return True
    return any(is_at_or_below(path, place) for place in places)


_LABELS = HarmlessNames(lambda name: name.startswith(PREFIX) and name not in ASKING_LABELS)
_ANNOTATIONS = HarmlessNames(lambda name: name.startswith(PREFIX) or refuse_annotation(name) is not None)
_CAPABILITIES = HarmlessNames(lambda name: refused_capability(name) is not None)
