"""The smallest shares that would have held the pods that were seen, by queue and owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import Resource, list_all
from cluster.object_reader import ObjectReader, refuse
from controller.watch.resources import Owner
from describe.share_uses import held_shares, read_uses
from kube.names import USE_HISTORY_KEY
from ledger.use import HOUR_SECONDS, UsedShare, seconds_since
from ledger.use_history import HistoryKey, OwnerHistory, OwnerUse, workload_text


class Suggestion(OwnerUse, rename="camel"):
    """What pods of one owner hold and use of each GPU; `enough` is 0 if nothing was measured."""

    unmeasured: int = 0
    """Pods without a measured share, in addition to `pods`."""

    @property
    def hours(self) -> float:
        """How long its pods were measured, together."""
        return self.seconds / HOUR_SECONDS

    @property
    def spare_gpus(self) -> float:
        """How many GPUs its pods hold beyond their need."""
        spare = self.held - self.enough if self.enough else 0
        return spare * self.pods / max(1, self.size.amount)


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
    found = {each.key: each for each in running}
    for known in history:
        now = found.get(known.key)
        each = found[known.key] = Suggestion(*msgspec.structs.astuple(known))
        if now is not None:
            each.unmeasured, each.held = now.unmeasured, max(now.held, known.held)
    return _sorted(found.values())


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
    return _sorted([_of_owner(key, of_owner, now) for key, of_owner in found.items()])


def _sorted(found: Iterable[Suggestion]) -> list[Suggestion]:
    return sorted(found, key=lambda each: (-each.spare_gpus, each.namespace, each.queue, each.owner))


def _of_owner(key: HistoryKey, shares: Sequence[UsedShare], now: datetime) -> Suggestion:
    found = Suggestion(*key, held=max([each.held for each in shares]))
    measured = [(each, each.use) for each in shares if each.use is not None]
    for share, use in measured:
        found.add(share, use)
        found.seconds += int(seconds_since(use.since, now))
    names = {share.pod for share, _ in measured}
    found.pods, found.unmeasured = len(names), len({each.pod for each in shares} - names)
    return found
