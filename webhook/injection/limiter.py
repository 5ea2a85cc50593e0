"""The limiter's volumes, mounts and init container (design: steps "volumes" and "init container")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from policies.effective import InitContainer, LibraryVolume, Limiter
from webhook.injection.env import VISIBLE_DEVICES
from webhook.injection.host_paths import NORMALISED, is_at_or_below
from webhook.injection.names import LONGEST, free_name
from webhook.injection.patch import Operation, add, append
from webhook.injection.slots import Slot
from webhook.injection.written import Written
from webhook.pod import Container, PodSpec
from webhook.reasons import Denial, Reason

INIT_CONTAINER = OUR_NAMES = "gpu-limiter"
"""Also how the name of everything begins that the limiter adds."""
LIBRARY_VOLUME = f"{OUR_NAMES}-library"
CACHE_VOLUME = f"{OUR_NAMES}-cache"
LONGEST_CONTAINER_NAME = LONGEST - len(f"{CACHE_VOLUME}-")
"""Characters up to which a container's name is in its cache volume's whole."""

_SECURITY_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Meets Pod Security "restricted" by itself: a warning of kubectl's fails a ClearML task."""


class Volumes:
    """The limiter's volumes in one pod: found as an earlier review wrote them, or new under free names."""

    def __init__(self, spec: PodSpec, every: Sequence[Slot], limiter: Limiter, written: Written) -> None:
        self._spec = spec
        self._limiter = limiter
        self._written = written
        self._taken = {volume.name for volume in spec.volumes or ()}
        for slot in every:
            self._taken.add(slot.container.name)
            # A mount without a volume is waiting for ours, to write into it.
            for mount in slot.container.volume_mounts or ():
                self._taken.add(mount.name)
        self._added: list[dict[str, Any]] = []
        self._library_name: str | None = None

    def mount(self, slot: Slot) -> list[Operation]:
        """Mount the library, read-only, and a cache of its own into one GPU container."""
        mounts = []
        library, cache = self._limiter.library, self._limiter.cache
        if library is not None:
            name = _library_in(slot.container, self._limiter, self._written)
            if name is None:
                mounts.append(
                    {"name": self._library(library), "mountPath": library.mount_path, "readOnly": True}
                )
            else:
                self._library_name = name
        if cache is not None and _cache_in(slot.container, self._limiter, self._written) is None:
            name = self._new(f"{CACHE_VOLUME}-{slot.container.name}", cache.size_limit)
            mounts.append({"name": name, "mountPath": cache.mount_path})
        return append(slot.path + "/volumeMounts", slot.container.volume_mounts, mounts)

    def add(self) -> list[Operation]:
        """Add the volumes that are new to the pod."""
        return append("/spec/volumes", self._spec.volumes, self._added)

    def add_init_container(self, model: Container) -> list[Operation]:
        """Put our init container first, with the cpu and memory of `model`, unless it is there."""
        init, library = self._limiter.init_container, self._limiter.library
        if init is None or library is None:
            return []
        wanted = _init_container(init, library, self._library(library))
        if not self._written.is_empty and self._written.has_init_container(wanted):
            return []
        named = {"name": free_name(INIT_CONTAINER, self._taken), **wanted, **_cpu_and_memory(model)}
        if init.image_pull_policy is not None:
            named["imagePullPolicy"] = init.image_pull_policy
        if not self._spec.init_containers:
            return [add("/spec/initContainers", [named])]
        return [add("/spec/initContainers/0", named)]

    def _library(self, library: LibraryVolume) -> str:
        if self._library_name is None:
            self._library_name = self._new(LIBRARY_VOLUME, library.size_limit)
        return self._library_name

    def _new(self, wanted: str, size_limit: str) -> str:
        name = free_name(wanted, self._taken)
        self._added.append({"name": name, "emptyDir": {"sizeLimit": size_limit}})
        return name


def refuse_mounts(gpu_containers: Iterable[Slot], limiter: Limiter, written: Written) -> Denial | None:
    """Refuse a user's mount at or below a path where the limiter's volumes go."""
    for slot in gpu_containers:
        for volume, find in ((limiter.library, _library_in), (limiter.cache, _cache_in)):
            if volume is None or not slot.container.volume_mounts:
                continue
            ours = None if written.is_empty else find(slot.container, limiter, written)
            place = NORMALISED[volume.mount_path]
            for mount in slot.container.volume_mounts:
                normal = NORMALISED[mount.mount_path]
                if normal.startswith(place) and is_at_or_below(normal, place) and mount.name != ours:
                    return _mount_taken(slot.container, mount.mount_path)
    return None


def _library_in(container: Container, limiter: Limiter, written: Written) -> str | None:
    """Name of the library volume in a container; None if it has none, or one that others write into."""
    init, library = limiter.init_container, limiter.library
    if written.is_empty or init is None or library is None:
        return None
    mount = {"mountPath": library.mount_path, "readOnly": True}
    name = written.volume_at(container.name, mount, library.size_limit)
    if name is None:
        return None
    ours = _init_container(init, library, name)
    # Another webhook may fetch it from a mirror; then ours is missing and is put before it.
    del ours["image"]
    return name if written.only_writer(name, ours) else None


def _cache_in(container: Container, limiter: Limiter, written: Written) -> str | None:
    cache = limiter.cache
    if written.is_empty or cache is None:
        return None
    return written.volume_at(container.name, {"mountPath": cache.mount_path}, cache.size_limit)


def _mount_taken(container: Container, path: str) -> Denial:
    return Denial.of(
        Reason.MOUNT_PATH,
        f'container "{container.name}" mounts {path}, where the GPU memory limiter goes: use another path',
    )


def _init_container(init: InitContainer, library: LibraryVolume, volume: str) -> dict[str, Any]:
    """Our init container but for its name and resources."""
    mounts = [{"name": volume, "mountPath": library.mount_path}]
    return {**_unmounted(init), "volumeMounts": mounts}


@lru_cache(maxsize=64)
def _unmounted(init: InitContainer) -> dict[str, Any]:
    """What is the same in all pods; shared, so never changed.

    Not the pull policy: the API server's AlwaysPullImages sets that of every container to its own.
    """
    variables = {VISIBLE_DEVICES: "void"} | {variable.name: variable.value for variable in init.env}
    return {
        "image": init.image,
        "command": list(init.command),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "securityContext": {**_SECURITY_CONTEXT, "runAsUser": init.run_as_user},
    }


def _cpu_and_memory(model: Container) -> dict[str, Any]:
    """Copy cpu and memory, nothing if there are none: anything else changes the pod's QoS class (seen)."""
    resources = model.resources
    if resources is None:
        return {}
    copied = {}
    for field, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        if amounts and ("cpu" in amounts or "memory" in amounts):
            copied[field] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
    return {"resources": copied} if copied else {}
