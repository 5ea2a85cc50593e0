"""Paths on a node that give access to GPUs outside the pod's share."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from functools import lru_cache

from kube import device_keys
from policies.model.allowances import HOST_PATHS, HostPath

SHARED_MEMORY = "/dev/shm"  # noqa: S108 a path of the node, not of this machine


def protected_place(
    path: str, allowed: Collection[HostPath] = (), further: tuple[str, ...] = ()
) -> str | None:
    """Return the protected path that equals, contains or is contained in `path`; None if there is none.

    The path is normalised first: `//dev` and `/./dev` are /dev, and `/` contains everything. A path that the
    policy allows is open, except for paths below it that no policy can allow. A path that a policy could
    allow is returned only if that would be enough.

    Args:
        path: on the node, as the pod writes it.
        allowed: paths that the policy allows.
        further: paths that the policy protects, normalised, unless it allows the same path.
    """
    normal = normalised(path)
    prefixes, text = _prefixes(further)
    prefix = normal.rstrip("/") + "/"
    if not prefix.startswith(prefixes) and f"\n{prefix}" not in text:
        return None
    own = [place for place in HOST_PATHS if is_at_or_below(normal, place)]
    for place in device_keys.HOST_PATHS:
        if touches(normal, place) and not any(is_at_or_below(each, place) for each in own):
            return place
    shut = (each for each in (*HOST_PATHS, *further) if each not in allowed)
    return next((each for each in shut if touches(normal, each)), None)


@lru_cache(maxsize=100)
def _prefixes(further: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return all paths with a slash at the end: that most touch none is told without comparing each."""
    every = tuple([f"{place}/" for place in (*device_keys.HOST_PATHS, *HOST_PATHS, *further)])
    return every, "\n".join(["", *every])


def touches(path: str, place: str) -> bool:
    """Whether the normalised `path` equals, contains or is contained in `place`."""
    return is_at_or_below(path, place) or is_at_or_below(place, path)


def normalised(path: str) -> str:
    """Return an absolute path in normal form: no double or trailing slash, no dots, /run for /var/run."""
    if "//" in path or "/." in path or path.endswith("/") or not path.startswith("/"):
        path = posixpath.normpath("/" + path.lstrip("/"))
    return path[len("/var") :] if path == "/var/run" or path.startswith("/var/run/") else path


def is_at_or_below(path: str, place: str) -> bool:
    """Whether the normalised `path` is `place` or something inside it."""
    return path == place or path.startswith(place.rstrip("/") + "/")
