"""What an earlier review may have written into this pod, read back by its content and never by a claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.quantity import parse_quantity

TOKENS = "/var/run/secrets/"
"""Where the API server and cloud identity webhooks mount tokens into every container."""


class Written:
    """The whole object of a pod that says it was injected; empty for every other pod.

    Only content counts: whatever is not exactly as we would write it is written again. Fields that others
    filled on our own objects (a LimitRange's resources, API defaults) are not compared.
    """

    def __init__(self, pod: Mapping[str, Any] | None = None) -> None:
        self._spec: Mapping[str, Any] = (pod or {}).get("spec") or {}
        self._containers = _by_name(self._spec, "containers", "initContainers")
        self._volumes = _by_name(self._spec, "volumes")
        self._only_writers: dict[str, bool] = {}
        self.is_empty = not self._spec
        """Whether nothing can have been written before, so that nothing needs to be looked for."""

    def volume_at(self, container: str, mount: Mapping[str, Any], size_limit: str) -> str | None:
        """Name of our volume that `container` mounts as `mount` says (all but the name), else None."""
        for existing in self._containers.get(container, {}).get("volumeMounts") or ():
            if _is_mount(existing, mount) and self._is_empty_dir(existing.get("name"), size_limit):
                return str(existing["name"])
        return None

    def has_init_container(self, wanted: Mapping[str, Any]) -> bool:
        """Whether an init container does what `wanted` says and nothing else, under whatever name."""
        return any(_does(existing, wanted) for existing in self._spec.get("initContainers") or ())

    def only_writer(self, volume: str, wanted: Mapping[str, Any]) -> bool:
        """Whether nobody can write into a volume but init containers that do what `wanted` says."""
        if volume not in self._only_writers:
            self._only_writers[volume] = not any(
                _writes_into(container, volume) for container in self._spec.get("containers") or ()
            ) and all(
                _does(container, wanted)
                for container in self._spec.get("initContainers") or ()
                if _writes_into(container, volume)
            )
        return self._only_writers[volume]

    def _is_empty_dir(self, name: str | None, size_limit: str) -> bool:
        empty_dir = self._volumes.get(name, {}).get("emptyDir")
        return isinstance(empty_dir, Mapping) and _same_quantity(empty_dir.get("sizeLimit"), size_limit)


def covers(existing: Any, wanted: Any) -> bool:
    """Whether `existing` says everything that `wanted` says; more is allowed, other values are not.

    Lists of objects may hold further objects, lists of anything else must be equal. The API server leaves
    empty texts out.
    """
    if isinstance(wanted, Mapping):
        return isinstance(existing, Mapping) and all(
            covers(existing.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], Mapping):
        return isinstance(existing, list) and all(
            any(covers(candidate, value) for candidate in existing) for value in wanted
        )
    return bool(existing == wanted) or (wanted == "" and existing is None)


def _by_name(spec: Mapping[str, Any], *fields: str) -> dict[str | None, Mapping[str, Any]]:
    """Members of lists by name. A pod may have thousands, and is not yet known to be valid."""
    return {each.get("name"): each for field in fields for each in reversed(spec.get(field) or ())}


def _writes_into(container: Mapping[str, Any], volume: str) -> bool:
    return any(
        mount.get("name") == volume and not mount.get("readOnly")
        for mount in container.get("volumeMounts") or ()
    )


def _is_mount(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return covers(existing, wanted) and not any(existing.get(key) for key in ("subPath", "subPathExpr"))


def _does(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an init container does what `wanted` says; others may only have given it a token to read."""
    return (
        covers(existing, wanted)
        and not any(existing.get(key) for key in ("args", "restartPolicy"))
        and all(
            str(mount.get("mountPath")).startswith(TOKENS)
            or any(_is_mount(mount, each) for each in wanted["volumeMounts"])
            for mount in existing["volumeMounts"]
        )
    )


def _same_quantity(existing: Any, wanted: str) -> bool:
    try:
        return parse_quantity(existing) == parse_quantity(wanted)
    except (TypeError, ValueError):
        return False
