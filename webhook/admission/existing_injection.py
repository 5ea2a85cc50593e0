"""The existing injection of a pod: fields of an earlier review, recognised by content, never by a mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from policies.model.limiters import VolumePart
from webhook.admission.container_refs import ContainerRef
from webhook.admission.exact_match import Json, is_empty_dir, same, volume_filled_by


class ExistingInjection:
    """The whole object of a pod that is marked as injected.

    Only exact content counts. If a volume or an init container of ours has one field more or less, or another
    container mounts the volume, it is not ours. The limiter is then written again, into new volumes.
    """

    def __init__(self, pod: Json | None = None) -> None:
        spec = (pod or {}).get("spec") or {}
        self._containers: dict[str, Json] = {
            f"/spec/{field}/{position}": container
            for field in ("initContainers", "containers")
            for position, container in enumerate(spec.get(field) or ())
        }
        volumes = spec.get("volumes") or ()
        self._volumes: dict[str, Json] = {volume["name"]: volume for volume in volumes}
        self._mounts = Counter(
            mount["name"] for container in self._containers.values() for mount in _mounts(container)
        )
        self.is_empty = not spec
        """Whether no earlier review can have written anything."""

    def library(self, gpu: Sequence[ContainerRef], filler: Json, library: VolumePart) -> str | None:
        """Return the volume with the limiter's library for all GPU containers; None if there is none.

        An init container that equals `filler` and runs before them fills it. No other container may mount it,
        not even read-only: the kubelet creates the directory of a subPath in it. If there are several, the
        volume that most GPU containers mount already is returned.
        """
        readers = {ref.path for ref in gpu}
        fillers = dict(self._fillers(readers, filler, library.mount_path))
        found = [name for name in fillers.values() if self._is_ours(name, library.size_limit)]
        mount = {"mountPath": library.mount_path, "readOnly": True}
        others = {
            each["name"]
            for path, container in self._containers.items()
            for each in _mounts(container)
            if fillers.get(path) != each["name"]
            and not (path in readers and same(each, {"name": each["name"], **mount}))
        }
        mounted = Counter(mount["name"] for path in readers for mount in _mounts(self._containers[path]))
        ours = [name for name in found if name not in others]
        return max(ours, key=mounted.__getitem__, default=None)

    def cache(self, ref: ContainerRef, cache: VolumePart) -> str | None:
        """Return the cache volume of a GPU container, which only it mounts; None if it has none."""
        for mount in _mounts(self._containers.get(ref.path, {})):
            name = mount["name"]
            if (
                same(mount, {"name": name, "mountPath": cache.mount_path})
                and self._mounts[name] == 1
                and self._is_ours(name, cache.size_limit)
            ):
                return str(name)
        return None

    def _fillers(self, readers: set[str], filler: Json, mount_path: str) -> Iterator[tuple[str, str]]:
        """Yield paths of init containers that equal `filler` and run before any reader, and their volumes."""
        for path, container in self._containers.items():
            if path in readers or not path.startswith("/spec/initContainers/"):
                return
            volume = volume_filled_by(container, filler, mount_path, self._volumes)
            if volume is not None:
                yield path, volume

    def _is_ours(self, name: str, size_limit: str) -> bool:
        volume = self._volumes.get(name)
        return volume is not None and is_empty_dir(volume, size_limit)


def _mounts(container: Json) -> Iterator[Any]:
    """Yield the mounts and the block devices of a container."""
    yield from container.get("volumeMounts") or ()
    devices = container.get("volumeDevices")
    if isinstance(devices, list):
        yield from (each for each in devices if isinstance(each, dict) and isinstance(each.get("name"), str))


NO_INJECTION = ExistingInjection()
"""For a pod that is not marked as injected."""
