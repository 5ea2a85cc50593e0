"""The variables and mounts of a limiter that limit a container to its share. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.settings import AgentPolicy, LimiterPart
from agent.shares import RefusedError, Share
from kube.quantity import whole

PRELOAD_FILE = "/etc/ld.so.preload"
"""The dynamic loader's own list; unlike LD_PRELOAD, a container cannot unset it."""
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_ADVICE = "ask for equal shares of equal GPUs, or use a container for each"
_FIRST_GPU = re.compile(r"(.+_)0")


def variables(share: Share, policy: AgentPolicy) -> dict[str, str]:
    """Return the limiter's variables for a share; none for a whole GPU.

    A container counts its GPUs from 0, in their order on the node, and the kubelet calls Allocate for one of
    them at a time. So a variable for the container's first GPU is written for every position that this GPU
    can have there: equal shares agree, and `refuse_conflict` refuses those that do not.
    """
    if share.memory_mib is None:
        return {}
    values = {
        "memory_mib": str(share.memory_mib),
        "slices": str(share.slices),
        "slices_per_gpu": str(policy.slices_per_gpu),
        "percent": str(100 * share.slices // policy.slices_per_gpu),
        "index": str(share.gpu.index),
        "container": "gpu",
    }
    places = share.gpu.index + 1 if "{index}" in policy.resource else 1
    return dict(_filled(policy.limiter.env, values, places))


def memory_variable(share: Share, policy: AgentPolicy) -> tuple[str, str] | None:
    """Return name and value of the first variable with a share's memory; None if the limiter has none."""
    of_memory = {name for name, text in policy.limiter.env if "memory_mib" in _PLACEHOLDER.findall(text)}
    found = variables(share, policy)
    return next(((name, value) for name, value in found.items() if name in of_memory), None)


def _filled(
    env: Iterable[tuple[str, str]], values: Mapping[str, str], places: int
) -> Iterator[tuple[str, str]]:
    for name, text in env:
        used = set(_PLACEHOLDER.findall(text))
        if used - values.keys():
            continue  # it needs the pod, which a device plugin does not know
        value = _PLACEHOLDER.sub(lambda found: values[found[1]], text)
        first = _FIRST_GPU.fullmatch(name)
        if first is None or "memory_mib" not in used:
            yield name, value
        else:
            yield from ((f"{first[1]}{place}", value) for place in range(places))


def refuse_conflict(shares: Iterable[Share], policy: AgentPolicy) -> None:
    """Refuse shares of one container, of all its resources, that cannot be limited together.

    Raises:
        RefusedError: two GPUs need different values of one variable, or one is whole and another is not.
    """
    seen: dict[str, tuple[Share, str]] = {}
    whole: Share | None = None
    for share in shares:
        whole = share if share.memory_mib is None else whole
        for name, value in variables(share, policy).items():
            other, before = seen.setdefault(name, (share, value))
            if before != value:
                raise RefusedError(
                    f"{name} would have to be {before} for GPU {other.gpu.index} and {value} for GPU"
                    f" {share.gpu.index}: {_ADVICE}"
                )
    if whole is not None and seen:
        limited, _ = next(iter(seen.values()))
        raise RefusedError(
            f"GPU {whole.gpu.index} is whole, and the limit of the share of GPU {limited.gpu.index} would"
            f" hold it too: {_ADVICE}"
        )


def mounts(share: Share, limiter: LimiterPart, state_dir: str) -> list[dict[str, Any]]:
    """Return the limiter's mounts in a container, as CDI has them; none for a whole GPU."""
    if share.memory_mib is None:
        return []
    found = []
    if limiter.preload is not None and limiter.library_path is not None:
        found.append(_of_node(f"{state_dir}/library", limiter.library_path))
        found.append(_of_node(f"{state_dir}/{loader_list(limiter.preload)}", PRELOAD_FILE))
    if limiter.cache_path is not None:
        size = f"size={whole(limiter.cache_size or '8Mi')}"
        options = ["rw", "nosuid", "nodev", "noexec", "mode=1777", size]
        memory = {"hostPath": "tmpfs", "containerPath": limiter.cache_path, "type": "tmpfs"}
        found.append({**memory, "options": options})
    return found


def _of_node(path: str, container_path: str) -> dict[str, Any]:
    options = ["ro", "nosuid", "nodev", "rbind"]
    return {"hostPath": path, "containerPath": container_path, "options": options}


def loader_list(preload: str) -> str:
    """Return the name of the file on the node with the dynamic loader's list for a library.

    Each library has its own file, which is written once, because running containers have it mounted.
    """
    return f"ld.so.preload-{hashlib.sha256(preload.encode()).hexdigest()[:12]}"
