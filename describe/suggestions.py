"""The smallest shares that would have held the pods that run now, by queue and owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import msgspec

from cluster.kube_client import ApiServer
from cluster.listing import Resource, list_all
from cluster.object_reader import ObjectReader, refuse
from controller.watch.resources import Owner
from describe.share_uses import UsedShare, held_shares, read_uses
from ledger.use import HOUR_SECONDS, ShareUse, seconds_since


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What pods of one owner hold and use of each GPU, and what would have held them."""

    namespace: str
    queue: str
    owner: str
    """Kind and name of the pods' controller; empty for pods without one."""
    pods: int
    """Pods with a measured share."""
    unmeasured: int
    """Pods without one."""
    slices: int
    """Slices of a GPU of the largest share."""
    slices_per_gpu: int
    peak_mib: int
    """The most that one of them was seen to use."""
    p95_mib: int
    """The most that one of them used in 95 % of the time."""
    busy_percent: int | None
    """The most GPU time that one of them used in the last hour; None if unknown."""
    enough: int | None
    """Slices that would have held the peak of each; None if nothing was measured."""
    hours: float
    """How long its pods were measured, together."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    owner_references: list[Owner] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata


PodOwner = tuple[str, str, str]
"""Namespace and name of a pod, and kind and name of its controller."""


def _owned(pod: _Pod) -> PodOwner:
    metadata = pod.metadata
    owner = next((each for each in metadata.owner_references or () if each.controller), None)
    return metadata.namespace, metadata.name, f"{owner.kind} {owner.name}" if owner is not None else ""


async def read_suggestions(api: ApiServer, namespace: str | None, now: datetime) -> list[Suggestion]:
    """Return suggestions for the running pods of a namespace (None: of the cluster).

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: something could not be read.
        msgspec.MsgspecError: a pod could not be read.
    """
    view, uses = await read_uses(api)
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace is not None else "/api/v1/pods"
    pods = Resource("pods", path, ObjectReader[_Pod, PodOwner](_Pod, _owned, refuse))
    owners = {(of, name): owner for of, name, owner in await list_all(api, pods)}
    shares = [each for each in held_shares(view, uses) if namespace in {None, each.share.namespace}]
    return suggest(shares, owners, now)


def suggest(
    shares: Iterable[UsedShare], owners: Mapping[tuple[str, str], str], now: datetime
) -> list[Suggestion]:
    """Return one suggestion for each owner, those that hold most beyond their need first.

    Args:
        shares: shares of bound pods.
        owners: the controller of each pod, by namespace and name.
        now: the time of the question.
    """
    found: defaultdict[tuple[str, str, str, int], list[UsedShare]] = defaultdict(list)
    for each in shares:
        share = each.share
        owner = owners.get((share.namespace, share.name), "")
        found[share.namespace, share.queue, owner, each.slices_per_gpu].append(each)
    made = [_of_owner(key[:3], of_owner, now) for key, of_owner in found.items()]
    return sorted(made, key=lambda each: (-_spare(each), each.namespace, each.queue, each.owner))


def _spare(found: Suggestion) -> int:
    return (found.slices - found.enough) * found.pods if found.enough is not None else 0


def _of_owner(key: tuple[str, str, str], shares: Sequence[UsedShare], now: datetime) -> Suggestion:
    measured = [(each, each.use) for each in shares if each.use is not None]
    names = {each.share.name for each, _ in measured}
    uses = [use for _, use in measured]
    busy = [use.busy_percent for use in uses if use.busy_percent is not None]
    return Suggestion(
        *key,
        pods=len(names),
        unmeasured=len({each.share.name for each in shares} - names),
        slices=max([each.share.slices for each in shares]),
        slices_per_gpu=shares[0].slices_per_gpu,
        peak_mib=max([use.peak_mib for use in uses], default=0),
        p95_mib=max([use.p95_mib for use in uses], default=0),
        busy_percent=max(busy, default=None),
        enough=max([_enough(each, use) for each, use in measured], default=None),
        hours=sum([seconds_since(use.since, now) for use in uses]) / HOUR_SECONDS,
    )


def _enough(held: UsedShare, use: ShareUse) -> int:
    """Return the slices of the same GPU whose memory holds the peak."""
    slices = -(-use.peak_mib * held.share.slices // max(1, use.memory_mib))
    return max(1, min(slices, held.slices_per_gpu or slices))
