"""What quotas count for the MIG instances of a pod: eighths of the card, and MiB."""

from __future__ import annotations

import msgspec

from kube.names import GPU_PRODUCT_LABEL
from ledger.facts import NodeFact, PodFact
from modes.mig_instances import instance_eighths, instance_mib, is_instance, profile_of_product


def with_instance_worth(pod: PodFact, node: NodeFact | None) -> PodFact:
    """Return the pod with the worth of its instances on its node; None if it has none, or it is unknown.

    If the card is unknown, the instances are worth their maximum.
    """
    products = _products(pod, node)
    instances = [(number, count) for number, count in pod.gpus if is_instance(number)]
    if pod.pooled and (profile := pool_profile(pod, node)) is not None:
        instances.append((profile, pod.pooled))
    more = sum([count * (_most_eighths(number, products) - 1) for number, count in instances])
    return pod if more == pod.more_eighths else msgspec.structs.replace(pod, more_eighths=more)


def mib_of_instances(pod: PodFact, node: NodeFact | None, number: int, count: int) -> int:
    """Return the MiB of some instances of one profile that a pod holds."""
    return count * max([instance_mib(number, product) for product in _products(pod, node)])


def pool_profile(pod: PodFact, node: NodeFact | None) -> int | None:
    """Return the MIG profile behind a pod's pool, under strategy `single`; None without instances."""
    found = [profile_of_product(product) for product in _products(pod, node)]
    return next((number for number in found if number is not None), None)


def _most_eighths(number: int, products: tuple[str, ...]) -> int:
    return max([instance_eighths(number, product) for product in products])


def _products(pod: PodFact, node: NodeFact | None) -> tuple[str, ...]:
    """Return the GPU models that a pod has or may get; one empty name if they are unknown."""
    if node is not None:
        return (node.labels.get(GPU_PRODUCT_LABEL) or "",)
    return pod.products or ("",)
