"""What of a pod decides its patch, without what is the pod's own: most pods of a cluster share a few forms.

A form is read only off a pod in which there is nothing to weigh. Whatever would have to be refused, taken out
or joined because of a text in it (a reserved variable, a hostPath, a mount below the limiter's path, an
annotation of ours) leaves the pod without a form, and every rule is then asked about that pod itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from ledger.constraints import Toleration
from policies.effective import EffectivePolicy
from policies.reserved import is_reserved
from webhook.injection.annotations import PREFIX
from webhook.injection.env import PRELOAD
from webhook.injection.host_paths import is_at_or_below, normalised
from webhook.injection.limiter import LONGEST_CONTAINER_NAME, OUR_NAMES
from webhook.injection.placeholders import uses_namespace
from webhook.injection.refusals import DEVICE_LIST_MOUNT, refuse_annotation
from webhook.injection.remembered import Remembered
from webhook.pod import Container, Pod, PodSpec, Resources

Amounts = tuple[tuple[str, str | int], ...]

_name = attrgetter("name")


class ContainerForm(msgspec.Struct, frozen=True, gc=False):
    """What of a container decides the patch."""

    resources: tuple[Amounts | None, Amounts | None] | None
    """Limits and requests."""
    has_env: bool
    has_mounts: bool
    is_privileged: bool
    is_native_sidecar: bool
    image: str | None
    """Only under a limiter that looks at images."""


class Form(msgspec.Struct, frozen=True, gc=False):
    """What of a pod decides its patch, but for the placement and the names."""

    policy: str
    namespace: str
    """Only under a policy whose variables speak of it."""
    label: str
    has_annotations: bool
    has_volumes: bool
    has_host_pid: bool
    has_runtime_class: bool
    has_resource_claims: bool
    tolerations: tuple[Toleration, ...]
    """Only under a policy that adds some."""
    init: tuple[ContainerForm, ...]
    regular: tuple[ContainerForm, ...]


class FormReader:
    """Reads the forms of pods under one policy."""

    def __init__(self, policy: EffectivePolicy) -> None:
        variables = policy.limiter.env + policy.env
        names = {variable.name for variable in variables} | {PRELOAD}
        places = [normalised(path) for path in (DEVICE_LIST_MOUNT, *policy.limiter.mount_paths)]
        self._policy = f"{policy.marker} {policy.queue or ''}"
        self._weighed_variables = Remembered(lambda name: name in names or is_reserved(name))
        self._weighed_paths = Remembered(
            lambda path: any(is_at_or_below(normalised(path), place) for place in places)
        )
        self._speaks_of_namespace = uses_namespace(variables)
        self._looks_at_images = bool(policy.limiter.image_pattern or policy.limiter.images)
        self._adds_tolerations = bool(policy.tolerations)

    def read(self, pod: Pod, label: str, namespace: str) -> Form | None:
        """Give the form of a pod with the fraction label; None if there is anything in it to weigh."""
        metadata, spec = pod.metadata, pod.spec
        if metadata is None or spec is None or not _is_plain(spec):
            return None
        annotations = metadata.annotations
        if annotations and any(map(_WEIGHED_ANNOTATIONS.__getitem__, annotations)):
            return None
        init = self._containers(spec.init_containers) if spec.init_containers else ()
        regular = self._containers(spec.containers or ())
        if init is None or not regular:
            return None
        return Form(
            self._policy,
            namespace if self._speaks_of_namespace else "",
            label,
            annotations is not None,
            bool(spec.volumes),
            bool(spec.host_pid),
            spec.runtime_class_name is not None,
            bool(spec.resource_claims),
            tuple(spec.tolerations or ()) if self._adds_tolerations else (),
            init,
            regular,
        )

    def _containers(self, containers: Sequence[Container]) -> tuple[ContainerForm, ...] | None:
        forms = []
        for container in containers:
            if self._is_weighed(container):
                return None
            context = container.security_context
            forms.append(
                ContainerForm(
                    _amounts(container.resources),
                    bool(container.env),
                    bool(container.volume_mounts),
                    context is not None and bool(context.privileged),
                    container.restart_policy == "Always",
                    container.image if self._looks_at_images else None,
                )
            )
        return tuple(forms)

    def _is_weighed(self, container: Container) -> bool:
        """Whether a text in a container has to be looked at by a rule."""
        name, env, mounts = container.name, container.env, container.volume_mounts
        if len(name) > LONGEST_CONTAINER_NAME or name.startswith(OUR_NAMES):
            return True
        if env and any(map(self._weighed_variables.__getitem__, map(_name, env))):
            return True
        for mount in mounts or ():
            if self._weighed_paths[mount.mount_path] or mount.name.startswith(OUR_NAMES):
                return True
        return False


def _is_plain(spec: PodSpec) -> bool:
    """Whether a spec has none of what is rare and has to be looked at by a rule."""
    if spec.affinity is not None or spec.overhead is not None or spec.resources is not None:
        return False
    for volume in spec.volumes or ():
        if volume.host_path is not None or volume.name.startswith(OUR_NAMES):
            return False
    return True


def _amounts(resources: Resources | None) -> tuple[Amounts | None, Amounts | None] | None:
    if resources is None:
        return None
    limits, requests = resources.limits, resources.requests
    return (
        None if limits is None else tuple(limits.items()),
        None if requests is None else tuple(requests.items()),
    )


_WEIGHED_ANNOTATIONS = Remembered(lambda name: name.startswith(PREFIX) or refuse_annotation(name) is not None)
