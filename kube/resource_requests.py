"""A pod's total request: Kubernetes' rule for containers, init containers and native sidecars.

The rule is `resource.PodRequests` of Kubernetes' component-helpers. A native sidecar (an init container with
restartPolicy Always) keeps running while everything after it starts; other init containers run one at a time.
The request is the larger of what starting and what running needs, plus the runtime's overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from kube.quantity import milli, rounded_up, whole

Quantities = Mapping[str, str | int]
"""Resource name to quantity, as the API sends them."""
Amounts = dict[str, int]
"""Resource name to amount: milli-CPU, bytes of memory, units of an extended resource."""


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


def effective_request(
    containers: Sequence[CountedContainer],
    init_containers: Sequence[CountedContainer] = (),
    *,
    overhead: Quantities | None = None,
    pod_level: Quantities | None = None,
    counts: Callable[[str], bool] = no_extended,
) -> EffectiveRequest:
    """Add up a pod's requests. A negative sum counts as 0: the API server rejects it after its webhooks.

    Args:
        containers: The regular containers.
        init_containers: Init containers and native sidecars, in order.
        overhead: `spec.overhead`.
        pod_level: `spec.resources.requests`: its CPU and memory replace the sum.
        counts: Whether to add up an extended resource too, by its name.

    Raises:
        ValueError: a quantity cannot be read, or an extended resource is not a whole number.
    """
    running = _sum(containers, counts)
    if init_containers:
        running = _with_init(running, init_containers, counts)
    if pod_level:
        running |= _amounts(pod_level, no_extended)
    if overhead:
        _add(running, _amounts(overhead, counts))
    return EffectiveRequest(max(0, running.pop("cpu", 0)), max(0, running.pop("memory", 0)), running)


def stored_request(
    containers: Sequence[CountedContainer],
    init_containers: Sequence[CountedContainer] = (),
    *,
    overhead: Quantities | None = None,
    pod_level: Quantities | None = None,
    counts: Callable[[str], bool],
) -> EffectiveRequest:
    """Add up the requests of a pod that the API server has accepted, as `effective_request` does.

    It accepts amounts beyond 64 bits, such as "1e30", and its scheduler counts them as 0. So do we: an error
    would hide what else the pod holds.
    """
    try:
        return effective_request(
            containers, init_containers, overhead=overhead, pod_level=pod_level, counts=counts
        )
    except ValueError:
        return effective_request(
            [_readable(each) for each in containers],
            [_readable(each) for each in init_containers],
            overhead=_readable_amounts(overhead),
            pod_level=_readable_amounts(pod_level),
            counts=counts,
        )


def _readable(container: CountedContainer) -> Container:
    requests = _readable_amounts(container.resources.requests if container.resources is not None else None)
    return Container(ContainerRequests(requests), container.restart_policy)


def _readable_amounts(quantities: Quantities | None) -> dict[str, str | int]:
    return {name: amount for name, amount in (quantities or {}).items() if _is_readable(name, amount)}


def _is_readable(name: str, quantity: str | int) -> bool:
    try:
        _amounts({name: quantity}, is_extended)
    except ValueError:
        return False
    return True


def _with_init(
    running: Amounts, init_containers: Sequence[CountedContainer], counts: Callable[[str], bool]
) -> Amounts:
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init_containers:
        own = _sum((container,), counts)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            own = sidecars
        else:
            _add(own, sidecars)
        _raise_to(peak, own)
    _add(running, sidecars)
    _raise_to(running, peak)
    return running


def _sum(containers: Sequence[CountedContainer], counts: Callable[[str], bool]) -> Amounts:
    total: Amounts = {}
    for container in containers:
        if container.resources is not None and container.resources.requests:
            _add(total, _amounts(container.resources.requests, counts))
    return total


def _amounts(quantities: Quantities, counts: Callable[[str], bool]) -> Amounts:
    amounts: Amounts = {}
    for name, quantity in quantities.items():
        if name == "cpu":
            amounts[name] = milli(quantity)
        elif name == "memory":
            amounts[name] = rounded_up(quantity)
        elif counts(name):
            amounts[name] = whole(quantity)
    return amounts


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, peak: Amounts) -> None:
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
