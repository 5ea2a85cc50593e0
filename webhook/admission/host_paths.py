"""Places on a node through which a pod could reach GPUs that it was not given."""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from policies.model.allowances import HOST_PATHS, HostPath

SHARED_MEMORY = "/dev/shm"  # noqa: S108 a path of the node, not of this machine

PROTECTED = (
    "/dev",
    "/proc",
    "/etc/cdi",
    "/run/cdi",
    "/run/nvidia",
    "/run/containerd",
    "/run/crio",
    "/run/docker",
    "/run/docker.sock",
    "/run/dockershim.sock",
    "/run/k0s",
    "/run/k3s/containerd",
    "/usr/local/vgpu",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/clearml-injector",
    "/var/snap/microk8s/common/run",
    "/var/snap/microk8s/common/var/lib/kubelet/device-plugins",
)
"""Device files (/proc/1/root leads to them too), CDI specifications, driver and limiter files, container
runtime sockets and the kubelet's device-plugin sockets. /var/run stands for /run, which it is a link to."""


def protected_place(
    path: str, allowed: Collection[HostPath] = (), further: Collection[str] = ()
) -> str | None:
    """Return the protected place that `path` is, contains or lies below; None if there is none.

    The path is normalised first: `//dev` and `/./dev` are /dev, and `/` contains everything. What a policy
    allowed is open but for the places below it that no policy can open. A place that a policy could open is
    given only where that would help.

    Args:
        path: on the node, as the pod writes it.
        allowed: places that the policy opens.
        further: places that the policy protects, unless it opens the very same.
    """
    normal = normalised(path)
    own = [place for place in HOST_PATHS if is_at_or_below(normal, place)]
    for place in PROTECTED:
        if touches(normal, place) and not any(is_at_or_below(each, place) for each in own):
            return place
    shut = [each for each in (*HOST_PATHS, *map(normalised, further)) if each not in allowed]
    return next((each for each in shut if touches(normal, each)), None)


def touches(path: str, place: str) -> bool:
    """Whether the normalised `path` is `place`, contains it or lies below it."""
    return is_at_or_below(path, place) or is_at_or_below(place, path)


def normalised(path: str) -> str:
    """Write an absolute path in one way: no double or trailing slash, no dots, /run for /var/run."""
    is_plain = path.startswith("/") and not ("//" in path or "/." in path or path.endswith("/"))
    normal = path if is_plain else posixpath.normpath("/" + path.lstrip("/"))
    return normal.removeprefix("/var") if is_at_or_below(normal, "/var/run") else normal


def is_at_or_below(path: str, place: str) -> bool:
    """Whether the normalised `path` is `place` or something inside it."""
    return path == place or path.startswith(place.rstrip("/") + "/")
