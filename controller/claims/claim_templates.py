"""Makes the template of a share before its pod is admitted: one for equal shares of a namespace.

A template has the name of its content, so that a leader needs to remember nothing: what it finds under the
name is either the same, or somebody else's, which no pod gets.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import list_all
from cluster.watched_resource import ObjectKey, WatchedResource
from controller.claims.template_objects import SeenTemplate, manifest, path_of, read_template, template_users
from kube.names import is_namespace
from ledger.placement_request import Placement, PlacementRequest
from modes.claim import ClaimedShare, is_named_after, template_name, template_spec
from service.log import get_logger
from service.yielding import CooperativeYield

MAX_IN_NAMESPACE = 128
"""Templates of one namespace: pods' authors choose their amounts."""
UNUSED_SECONDS = 3600.0
UNUSED_IN_FULL_SECONDS = 60.0
"""The same in a full namespace: otherwise one user with many different amounts would shut out the others."""
WRITE_SECONDS = 1.5
"""Timeout of a request: a review waits for it."""
COLLECT_SECONDS = 60.0
GATE_IS_OFF = (
    "the API server dropped `capacity` from the claim's template: its feature gate DRAConsumableCapacity is"
    " off, ask the admin"
)
_NO_ANSWER = (*TRANSPORT_ERRORS, msgspec.MsgspecError)


class _Known(msgspec.Struct):
    """A template that exists."""

    spec: Any
    used: float
    """When a pod last got it."""


class ClaimTemplates:
    """The templates of all namespaces, as watched; made and collected by the leader."""

    def __init__(self, api: ApiServer, leads: Callable[[], bool], clock: Callable[[], float]) -> None:
        """`leads` returns whether this replica may write; `clock` is monotonic."""
        self._api = api
        self._leads = leads
        self._clock = clock
        self._known: dict[ObjectKey, _Known] = {}
        self._making: dict[ObjectKey, asyncio.Task[str | None]] = {}
        self._deleting: dict[ObjectKey, asyncio.Task[None]] = {}
        """Deletions that the API server has not answered: such a template may still be there."""
        self._log = get_logger("claims")
        self.watched: WatchedResource[SeenTemplate] = WatchedResource(
            key_of=lambda found: (found.namespace, found.name),
            keys=lambda: self._known,
            set=self._seen,
            remove=self._gone,
            listed=self._is_listed,
            yielding=CooperativeYield(),
        )

    async def ensure(self, request: PlacementRequest, placement: Placement) -> str | None:
        """Make the template of a placed pod if it is missing; return why it cannot be made, for the user."""
        share, namespace = request.share, request.accounting.namespace
        if share.driver is None or not is_namespace(namespace):
            return "the request names no driver or no namespace"
        try:
            kinds = request.demands.kinds
            claimed = ClaimedShare(share.driver, share.fraction, placement.cards, kinds, share.any_gpu)
            key, spec = (namespace, template_name(claimed)), template_spec(claimed)
        except ValueError as error:
            return str(error)
        return await self._ensure(key, spec)

    def start_term(self) -> None:
        """Count all templates as used now: a replica that stood by has not seen which of them pods got."""
        now = self._clock()
        for known in self._known.values():
            known.used = now

    async def collect(self) -> None:
        """Delete templates that no pod got for an hour (a minute in a full namespace) and none waits for."""
        now, unused = self._clock(), defaultdict[str, list[tuple[ObjectKey, _Known]]](list)
        counts = Counter(namespace for namespace, _ in self._known)
        for key, known in self._known.items():
            kept = UNUSED_IN_FULL_SECONDS if counts[key[0]] >= MAX_IN_NAMESPACE else UNUSED_SECONDS
            if known.used <= now - kept:
                unused[key[0]].append((key, known))
        for namespace, found in unused.items():
            named = set[str]().union(*await list_all(self._api, template_users(namespace)))
            for key, known in found:
                # A pod may have got it meanwhile.
                is_unused = self._known.get(key) is known and known.used < now and key[1] not in named
                if is_unused and self._leads():
                    await self._collect_one(key)

    async def _collect_one(self, key: ObjectKey) -> None:
        """Delete a template; a pod that needs it meanwhile waits for the end, and makes another one."""
        del self._known[key]
        self._deleting[key] = deleting = asyncio.ensure_future(self._delete(key))
        deleting.add_done_callback(lambda _: self._deleting.pop(key, None))
        await asyncio.shield(deleting)

    async def _ensure(self, key: ObjectKey, spec: Any) -> str | None:
        if (deleting := self._deleting.get(key)) is not None:
            await asyncio.shield(deleting)
        known = self._known.get(key)
        if known is not None:
            known.used = self._clock()
            return None if known.spec == spec else _somebody_elses(key)
        if key not in self._making:
            # Joined into one set, they would be a copy of the templates of the whole cluster.
            new = [each for each in self._making if each not in self._known]
            if sum(key[0] == each for keys in (self._known, new) for each, _ in keys) >= MAX_IN_NAMESPACE:
                return (
                    f"pods of namespace {key[0]} asked for {MAX_IN_NAMESPACE} different shares: use one of"
                    " these amounts, try again in two minutes, or delete pods that wait"
                )
            self._begin(key, spec)
        return await asyncio.shield(self._making[key])

    def _begin(self, key: ObjectKey, spec: Any) -> None:
        self._making[key] = making = asyncio.ensure_future(self._make(key, spec))
        making.add_done_callback(lambda _: self._making.pop(key, None))

    async def _make(self, key: ObjectKey, spec: Any) -> str | None:
        """Create a template and read back what the API server keeps of it."""
        try:
            stored, is_new = await self._create(key, spec)
        except ApiError as error:
            return _refused(error)
        except _NO_ANSWER as error:
            return f"the API server did not answer in time ({type(error).__name__}): try again"
        if stored.spec == spec:
            self._known[key] = _Known(spec, self._clock())
            return None
        if is_new and _asks_capacity(spec) and not _asks_capacity(stored.spec):
            await self._delete(key)
            return GATE_IS_OFF
        return _somebody_elses(key)

    async def _create(self, key: ObjectKey, spec: Any) -> tuple[SeenTemplate, bool]:
        """Return the template of that name, and whether it was made now."""
        namespace, name = key
        is_new = True
        try:
            body = manifest(namespace, name, spec)
            path = path_of(namespace)
            data = await self._api.request("POST", path, body=body, seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            is_new = False
            data = await self._api.request("GET", path_of(namespace, name), seconds=WRITE_SECONDS)
        return read_template(data), is_new

    async def _delete(self, key: ObjectKey) -> None:
        try:
            await self._api.request("DELETE", path_of(*key), seconds=WRITE_SECONDS)
        except (ApiError, *_NO_ANSWER) as error:
            self._log.warning("a template was not deleted", name="/".join(key), error=str(error))

    def _seen(self, found: SeenTemplate) -> None:
        key = found.namespace, found.name
        known = self._known.setdefault(key, _Known(found.spec, self._clock()))
        known.spec = found.spec

    def _gone(self, key: ObjectKey) -> None:
        """Forget a deleted template; make it again if pods got it: they may still wait for their claims.

        Not one without the content that its name says: its amount was dropped, or it is somebody else's.
        """
        known = self._known.pop(key, None)
        if known is None or key in self._making or not self._leads():
            return
        if known.used > self._clock() - UNUSED_SECONDS and is_named_after(key[1], known.spec):
            self._log.warning("a template in use was deleted and is made again", name="/".join(key))
            self._begin(key, known.spec)

    async def _is_listed(self) -> None:
        """Do nothing: a template that is not known yet is found when it is made."""


def _asks_capacity(spec: Any) -> bool:
    return '"capacity"' in msgspec.json.encode(spec).decode()


def _somebody_elses(key: ObjectKey) -> str:
    return f"ResourceClaimTemplate {key[1]} exists with other content: delete it in namespace {key[0]}"


def _refused(error: ApiError) -> str:
    if error.status == HTTPStatus.NOT_FOUND:
        return "the API server serves no resource.k8s.io/v1, or the namespace is gone: ask the admin"
    if error.status == HTTPStatus.FORBIDDEN:
        return "the controller may not make the claim's template in this namespace: ask the admin"
    return f"the API server rejected the claim's template ({error.status}): ask the admin"
