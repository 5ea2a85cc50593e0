"""The smallest shares that would have held the pods that were seen, by queue and owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import Resource, list_all
from cluster.object_reader import ObjectReader, refuse
from controller.watch.resources import Owner
from describe.share_uses import held_shares, read_uses
from kube.names import USE_HISTORY_KEY
from ledger.use import HOUR_SECONDS, GpuSize, UsedShare, enough, seconds_since
from ledger.use_history import HistoryKey, OwnerHistory, OwnerUse, workload_text


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What pods of one owner hold and use of each GPU, and the smallest share that would have been enough."""

    namespace: str
    queue: str
    owner: str
    """Kind and name of the pods' controller; empty for pods without one."""
    pods: int
    """Pods with a measured share."""
    unmeasured: int
    """Pods without one."""
    held: int
    """The largest share of a GPU."""
    size: GpuSize
    peak_mib: int
    """The most that one of them was seen to use."""
    p95_mib: int
    """The most that one of them used in 95 % of the time."""
    busy_percent: int | None
    """The most GPU time that one of them used in the last hour; None if unknown."""
    enough: int | None
    """The share that would have held the peak of each; None if nothing was measured."""
    hours: float
    """How long its pods were measured, together."""
    last_seen: str | None = None
    """When the last of them was seen, in RFC 3339; None without the controller's history."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What is known of owners, and what it lacks."""

    found: Sequence[Suggestion]
    missing: str | None = None
    """Why only pods that run now are counted; None if the controller's history is too."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    owner_references: list[Owner] | None = None


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata


PodOwner = tuple[str, str, str]
"""Namespace and name of a pod, and kind and name of its controller."""


def _owned(pod: _Pod) -> PodOwner:
    metadata = pod.metadata
    owner = next((each for each in metadata.owner_references or () if each.controller), None)
    return (
        metadata.namespace,
        metadata.name,
        workload_text(owner.kind, owner.name) if owner is not None else "",
    )


async def read_suggestions(
    api: ApiServer, namespace: str | None, now: datetime, config_map: tuple[str, str]
) -> Suggestions:
    """Return suggestions for the pods of a namespace (None: of the cluster).

    Args:
        api: the API server.
        namespace: the namespace.
        now: the time of the question.
        config_map: namespace and name of the ConfigMap with the controller's history.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: something could not be read.
        msgspec.MsgspecError: a pod could not be read.
    """
    view, uses = await read_uses(api)
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace is not None else "/api/v1/pods"
    pods = Resource("pods", path, ObjectReader[_Pod, PodOwner](_Pod, _owned, refuse))
    owners = {(of, name): owner for of, name, owner in await list_all(api, pods)}
    shares = [each for each in held_shares(view, uses) if namespace in {None, each.namespace}]
    running = suggest(shares, owners, now)
    try:
        history = await _read_history(api, *config_map)
    except (ApiError, *TRANSPORT_ERRORS, msgspec.MsgspecError) as error:
        return Suggestions(
            running, f"the history in ConfigMap {'/'.join(config_map)} cannot be read: {error}"
        )
    known = [each for each in history if namespace in {None, each.namespace}]
    return Suggestions(with_history(running, known))


async def _read_history(api: ApiServer, namespace: str, name: str) -> list[OwnerUse]:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"
    data = msgspec.json.decode(await api.request("GET", path), type=_ConfigMap).data or {}
    return list(OwnerHistory(data.get(USE_HISTORY_KEY, "")).owners.values())


def with_history(running: Iterable[Suggestion], history: Iterable[OwnerUse]) -> list[Suggestion]:
    """Return what is known of all owners that were ever measured, and of those that run now unmeasured."""
    now = {(each.namespace, each.queue, each.owner, each.size): each for each in running}
    found = {known.key: _of_history(known, now.get(known.key)) for known in history}
    return _sorted([*found.values(), *[each for key, each in now.items() if key not in found]])


def _of_history(known: OwnerUse, running: Suggestion | None) -> Suggestion:
    return Suggestion(
        known.namespace,
        known.queue,
        known.owner,
        pods=known.pods,
        unmeasured=running.unmeasured if running is not None else 0,
        held=max(known.held, running.held if running is not None else 0),
        size=known.size,
        peak_mib=known.peak_mib,
        p95_mib=known.p95_mib,
        busy_percent=known.busy_percent,
        enough=known.enough,
        hours=known.seconds / HOUR_SECONDS,
        last_seen=datetime.fromtimestamp(known.last_seen, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def suggest(
    shares: Iterable[UsedShare], owners: Mapping[tuple[str, str], str], now: datetime
) -> list[Suggestion]:
    """Return one suggestion for each owner, those that hold most beyond their need first.

    Args:
        shares: shares of bound pods.
        owners: the controller of each pod, by namespace and name.
        now: the time of the question.
    """
    found: defaultdict[HistoryKey, list[UsedShare]] = defaultdict(list)
    for each in shares:
        owner = owners.get((each.namespace, each.pod), "")
        found[each.namespace, each.queue, owner, each.size].append(each)
    made = [_of_owner(key, of_owner, now) for key, of_owner in found.items()]
    return _sorted(made)


def _sorted(found: Iterable[Suggestion]) -> list[Suggestion]:
    return sorted(found, key=lambda each: (-_spare(each), each.namespace, each.queue, each.owner))


def _spare(found: Suggestion) -> float:
    """Return how many GPUs pods hold beyond their need."""
    spare = found.held - found.enough if found.enough is not None else 0
    return spare * found.pods / max(1, found.size.amount)


def _of_owner(key: HistoryKey, shares: Sequence[UsedShare], now: datetime) -> Suggestion:
    measured = [(each, each.use) for each in shares if each.use is not None]
    names = {each.pod for each, _ in measured}
    uses = [use for _, use in measured]
    busy = [use.busy_percent for use in uses if use.busy_percent is not None]
    return Suggestion(
        *key[:3],
        pods=len(names),
        unmeasured=len({each.pod for each in shares} - names),
        held=max([each.held for each in shares]),
        size=key[3],
        peak_mib=max([use.peak_mib for use in uses], default=0),
        p95_mib=max([use.p95_mib for use in uses], default=0),
        busy_percent=max(busy, default=None),
        enough=max([enough(each.held, each.size, use) for each, use in measured], default=None),
        hours=sum([seconds_since(use.since, now) for use in uses]) / HOUR_SECONDS,
    )
