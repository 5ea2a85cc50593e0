"""The limiter's volumes, mounts and init container (docs/reference/admission.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from kube.device_keys import VISIBLE_DEVICES
from kube.names import GPU_MEMORY_LABEL, MAX_LABEL_VALUE
from kube.quantity import parse_quantity
from policies.model.effective import EffectiveLimiter
from policies.model.limiters import InitContainerPart
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.existing_injection import ExistingInjection
from webhook.admission.host_paths import is_at_or_below, normalised
from webhook.admission.json_patch import Operation, add, append, remove
from webhook.admission.pod import Container, PodSpec, Resources

INIT_CONTAINER = OUR_NAMES = "gpu-limiter"
"""Prefix of all names that the limiter adds."""
LIBRARY_VOLUME = f"{OUR_NAMES}-library"
CACHE_VOLUME = f"{OUR_NAMES}-cache"
_DIGITS = 8
"""Digits of the digest in a shortened name."""

_SECURITY_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Meets Pod Security "restricted": a warning of kubectl would fail a ClearML task."""
_LITTLE = {"cpu": "100m", "memory": "128Mi"}
"""More than copying a library takes."""


class Volumes:
    """The limiter's volumes in one pod: those of an earlier review, or new ones with unused names."""

    def __init__(
        self,
        spec: PodSpec,
        every: Sequence[ContainerRef],
        gpu: Sequence[ContainerRef],
        limiter: EffectiveLimiter,
        existing: ExistingInjection,
    ) -> None:
        self._spec = spec
        self._limiter = limiter
        self._existing_injection = existing
        self._taken = {volume.name for volume in spec.volumes or ()}
        for ref in every:
            self._taken.add(ref.container.name)
            # A mount without a volume could refer to ours, to write into it.
            self._taken.update([mount.name for mount in ref.container.volume_mounts or ()])
        self._added: list[dict[str, Any]] = []
        self._existing_library = self._library = _library(gpu, limiter, existing)
        if self._library is None and limiter.library is not None:
            self._library = self._new(LIBRARY_VOLUME, limiter.library.size_limit)

    def mount(self, ref: ContainerRef) -> list[Operation]:
        """Mount the library (read-only) and a separate cache into one GPU container.

        Mounts at these paths that differ from ours are replaced; `refuse_mounts` has denied all others.
        """
        stale: list[int] = []
        mounts: list[dict[str, Any]] = []
        library, cache = self._limiter.library, self._limiter.cache
        if library is not None:
            at = _position(ref.container, library.mount_path)
            if at is None or (ref.container.volume_mounts or [])[at].name != self._existing_library:
                stale += [] if at is None else [at]
                mounts.append({"name": self._library, "mountPath": library.mount_path, "readOnly": True})
        if cache is not None and self._existing_injection.cache(ref, cache) is None:
            at = _position(ref.container, cache.mount_path)
            stale += [] if at is None else [at]
            name = self._new(f"{CACHE_VOLUME}-{ref.container.name}", cache.size_limit)
            mounts.append({"name": name, "mountPath": cache.mount_path})
        path = ref.path + "/volumeMounts"
        removals = [remove(f"{path}/{at}") for at in sorted(stale, reverse=True)]
        return [*removals, *append(path, ref.container.volume_mounts, mounts)]

    def add(self) -> list[Operation]:
        """Add the new volumes to the pod."""
        return append("/spec/volumes", self._spec.volumes, self._added)

    def add_init_container(self, model: Container) -> list[Operation]:
        """Insert our init container as the first, unless it exists; `model` is a GPU container."""
        init, library = self._limiter.init_container, self._limiter.library
        if init is None or library is None or self._existing_library is not None:
            return []
        named = {
            "name": _take_name(INIT_CONTAINER, self._taken),
            **_init_container(init),
            "volumeMounts": [{"name": self._library, "mountPath": library.mount_path}],
            **_cpu_and_memory(model),
        }
        if init.image_pull_policy is not None:
            named["imagePullPolicy"] = init.image_pull_policy
        known = self._spec.image_pull_secrets or []
        secrets = [each for name in init.image_pull_secrets if (each := {"name": name}) not in known]
        at, value = ("/0", named) if self._spec.init_containers else ("", [named])
        return [add(f"/spec/initContainers{at}", value), *append("/spec/imagePullSecrets", known, secrets)]

    def _new(self, wanted: str, size_limit: str) -> str:
        name = _take_name(wanted, self._taken)
        self._added.append({"name": name, "emptyDir": {"sizeLimit": size_limit}})
        return name


def refuse_mounts(
    gpu_containers: Iterable[ContainerRef], limiter: EffectiveLimiter, existing: ExistingInjection
) -> Denial | None:
    """Refuse a user's mounts at or below the limiter's paths.

    In a pod that is marked as injected, one mount at exactly such a path may be ours; it is replaced if it is
    not.
    """
    for ref in gpu_containers:
        for mount_path in limiter.mount_paths if ref.paths else ():
            place = normalised(mount_path)
            ours = None if existing.is_empty else _position(ref.container, mount_path)
            for at, (path, normal) in enumerate(ref.paths):
                if normal.startswith(place) and is_at_or_below(normal, place) and at != ours:
                    return _mount_taken(ref.container, path)
    return None


_LEAVE_OUT = (
    f"leave out its GPU amounts, the affinity to {GPU_MEMORY_LABEL}, and containers, volumes and mounts"
    f" {OUR_NAMES}*"
)


def refuse_copy_from_elsewhere(memory_value: str) -> Denial:
    """Refuse a restored copy of a pod that was admitted where there were other GPUs: it would never start."""
    found = f"no node has GPUs of {memory_value} MiB, as where this pod was admitted first"
    return Denial.of(Reason.NO_NODE, f"{found}: {_LEAVE_OUT}")


def refuse_copy(
    gpu_containers: Iterable[ContainerRef], limiter: EffectiveLimiter, existing: ExistingInjection
) -> Denial | None:
    """Refuse an edited copy of an admitted pod in one line: else each part would be denied after the other.

    A pod that is marked as injected is no such copy: its parts are recognised.
    """
    mounts = [mount for ref in gpu_containers for mount in ref.container.volume_mounts or ()]
    if existing.is_empty and any(
        mount.name.startswith(OUR_NAMES) and is_at_or_below(normalised(mount.mount_path), normalised(place))
        for mount in mounts
        for place in limiter.mount_paths
    ):
        return Denial.of(Reason.MOUNT_PATH, f"the pod is an edited copy of an admitted one: {_LEAVE_OUT}")
    return None


def _library(
    gpu: Sequence[ContainerRef], limiter: EffectiveLimiter, existing: ExistingInjection
) -> str | None:
    """Return the library volume of an earlier review, if it is complete."""
    init, library = limiter.init_container, limiter.library
    if existing.is_empty or init is None or library is None:
        return None
    return existing.library(gpu, _init_container(init), library)


def _position(container: Container, path: str) -> int | None:
    """Return the position of the first mount at exactly this path."""
    return next(
        (at for at, mount in enumerate(container.volume_mounts or ()) if mount.mount_path == path), None
    )


def _mount_taken(container: Container, path: str) -> Denial:
    return Denial.of(
        Reason.MOUNT_PATH,
        f'container "{container.name}" mounts {path}, a path of the GPU memory limiter: use another path',
    )


def _init_container(init: InitContainerPart) -> dict[str, Any]:
    """Return the fields of our init container that are the same in all pods.

    The pull policy is not among them: the API server's AlwaysPullImages changes it.
    """
    variables = {VISIBLE_DEVICES: "void"} | init.env
    return {
        "image": init.image,
        "command": list(init.command),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "securityContext": {**_SECURITY_CONTEXT, "runAsUser": init.run_as_user},
    }


def _cpu_and_memory(model: Container) -> dict[str, Any]:
    """Return cpu and memory where the model has them, or the pod's QoS class would change; never more.

    It is little, because the pod counts as what its init container requests even after its model needs less.
    """
    resources, given = model.resources or Resources(), dict[str, Any]()
    for field, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        little = {
            name: _at_most(amounts[name], most)
            for name, most in _LITTLE.items()
            if amounts and name in amounts
        }
        given |= {field: little} if little else {}
    return {"resources": given} if given else {}


def _at_most(amount: str | int, most: str) -> str | int:
    try:
        return most if parse_quantity(amount) > parse_quantity(most) else amount
    except ValueError:
        return amount  # Kubernetes will deny it


def _take_name(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, shortened to fit, and numbered from 2 if it is taken; add it to `taken`."""
    # Digest only once for all numbers: a container's name may have megabytes.
    is_short = len(wanted) <= MAX_LABEL_VALUE - _DIGITS
    digest = "" if is_short else hashlib.sha256(wanted.encode()).hexdigest()[:_DIGITS]
    number = 1
    while (name := _numbered(wanted, digest, number)) in taken:
        number += 1
    taken.add(name)
    return name


def _numbered(wanted: str, digest: str, number: int) -> str:
    suffix = "" if number == 1 else f"-{number}"
    length = MAX_LABEL_VALUE - len(suffix)
    fitted = wanted if len(wanted) <= length else f"{wanted[: length - 1 - _DIGITS]}-{digest}"
    return fitted + suffix
