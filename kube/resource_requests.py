"""A pod's total request: Kubernetes' rule for containers, init containers and native sidecars.

The rule is `resource.PodRequests` of Kubernetes' component-helpers. A native sidecar (an init container with
restartPolicy Always) keeps running while everything after it starts; other init containers run one at a time.
The request is the larger of what starting and what running needs, plus the runtime's overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec

from kube.quantity import milli, rounded_up, whole

Quantities = Mapping[str, str | int]
"""Resource name to quantity, as the API sends them."""
Amounts = dict[str, int]
"""Resource name to amount: milli-CPU, bytes of memory, units of an extended resource."""
Read = Callable[[Quantities], Amounts]


class ContainerRequests(msgspec.Struct, gc=False):
    """The part of a container's `resources` that the scheduler counts."""

    requests: dict[str, str | int] | None = None


class Container(msgspec.Struct, rename="camel", gc=False):
    """The part of a container that the scheduler counts; code that needs more declares its own type."""

    resources: ContainerRequests | None = None
    restart_policy: str | None = None


class HasRequests(Protocol):
    """An object that has a container's requests."""

    @property
    def requests(self) -> Quantities | None: ...  # noqa: D102 - the class says it


class CountedContainer(Protocol):
    """An object that counts as a container."""

    @property
    def resources(self) -> HasRequests | None: ...  # noqa: D102 - the class says it

    @property
    def restart_policy(self) -> str | None: ...  # noqa: D102 - the class says it


class EffectiveRequest(msgspec.Struct, frozen=True):
    """A pod's request as the scheduler counts it."""

    cpu_milli: int
    memory_bytes: int
    extended: Mapping[str, int]
    """The counted extended resources that the pod requests."""


def no_extended(_name: str) -> bool:
    """Count no extended resource, only CPU and memory."""
    return False


def is_extended(name: str) -> bool:
    """Whether a resource is extended: Kubernetes takes only whole numbers of these, not of its own domain."""
    return "/" in name and "kubernetes.io/" not in name


def effective_request(  # noqa: PLR0913 each is a part of a pod
    containers: Sequence[CountedContainer],
    init_containers: Sequence[CountedContainer] = (),
    *,
    overhead: Quantities | None = None,
    pod_level: Quantities | None = None,
    counts: Callable[[str], bool] = no_extended,
    is_stored: bool = False,
) -> EffectiveRequest:
    """Add up a pod's requests. A negative sum counts as 0: the API server rejects it after its webhooks.

    Args:
        containers: The regular containers.
        init_containers: Init containers and native sidecars, in order.
        overhead: `spec.overhead`.
        pod_level: `spec.resources.requests`: its CPU and memory replace the sum.
        counts: Whether to add up an extended resource too, by its name.
        is_stored: Whether the API server has accepted the pod. It accepts amounts beyond 64 bits, such as
            "1e30", and its scheduler counts them as 0. So do we: an error would hide what else the pod holds.

    Raises:
        ValueError: a quantity of a pod that is not stored cannot be read, or an extended resource of it is
            not a whole number.
    """
    read = partial(_stored_amounts if is_stored else _amounts, counts)
    running = _sum(containers, read)
    if init_containers:
        running = _with_init(running, init_containers, read)
    if pod_level:
        running |= {name: amount for name, amount in read(pod_level).items() if name in {"cpu", "memory"}}
    if overhead:
        _add(running, read(overhead))
    return EffectiveRequest(max(0, running.pop("cpu", 0)), max(0, running.pop("memory", 0)), running)


def _with_init(running: Amounts, init_containers: Sequence[CountedContainer], read: Read) -> Amounts:
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init_containers:
        own = _sum((container,), read)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            own = sidecars
        else:
            _add(own, sidecars)
        _raise_to(peak, own)
    _add(running, sidecars)
    _raise_to(running, peak)
    return running


def _sum(containers: Sequence[CountedContainer], read: Read) -> Amounts:
    total: Amounts = {}
    for container in containers:
        if container.resources is not None and container.resources.requests:
            _add(total, read(container.resources.requests))
    return total


def _amounts(counts: Callable[[str], bool], quantities: Quantities) -> Amounts:
    amounts: Amounts = {}
    for name, quantity in quantities.items():
        if name == "cpu":
            amounts[name] = milli(quantity)
        elif name == "memory":
            amounts[name] = rounded_up(quantity)
        elif counts(name):
            amounts[name] = whole(quantity)
    return amounts


def _stored_amounts(counts: Callable[[str], bool], quantities: Quantities) -> Amounts:
    found: Amounts = {}
    for name, quantity in quantities.items():
        with suppress(ValueError):
            found |= _amounts(counts, {name: quantity})
    return found


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, peak: Amounts) -> None:
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
