"""Leader election by a Lease: which replica may place and write, until when, and in which term.

Terms are the Lease's `leaseTransitions`. A leader trusts only its own clock: it stops at its renew deadline,
which is counted from before the last renewal was sent, long before others may take over.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import msgspec

from cluster.kube_client import MERGE_PATCH, TRANSPORT_ERRORS, ApiError, ApiServer
from kube.names import ADDRESS_ANNOTATION
from service.background import beat
from service.log import get_logger

LOOK_SECONDS = 0.5
"""Between two reads of the Lease by a standby."""
YIELD_SECONDS = 60.0
"""How long a leader has a reason not to lead before it gives up the Lease. Watches that failed with the API
server, as all replicas' do, are tried again before."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """This replica as a candidate."""

    namespace: str
    """Namespace of the Lease."""
    lease: str
    """Name of the Lease."""
    identity: str
    """Unique for every process that ever runs."""
    address: str
    """`https://host:port` of this replica's API."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The durations of a Lease, in seconds."""

    duration: float
    """After this time without a renewal, others take over."""
    renew_deadline: float
    """After this time without a renewal, the leader stops."""
    retry: float
    """Between two renewals."""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_transitions: int | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Leadership:
    """Holds the Lease, or waits for it."""

    def __init__(
        self,
        api: ApiServer,
        candidate: Candidate,
        timing: LeaseTiming,
        clock: Callable[[], float] = time.monotonic,
        reason_not_to_lead: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`reason_not_to_lead` returns this replica's reason not to lead; None without one."""
        self._api = api
        self._candidate = candidate
        self._timing = timing
        self._clock = clock
        self._reason_not_to_lead = reason_not_to_lead
        self._unfit_since: float | None = None
        """Since when there is a reason not to lead; infinity once the Lease was given up for it."""
        self._withdrawn = False
        self._writing = asyncio.Lock()
        self._until = 0.0
        self._lease: _Lease | None = None
        self._seen_at = 0.0
        self._least_transition = 0
        self.failure: str | None = None
        """Why the Lease cannot be read or written; None if it can."""
        self._log = get_logger("leadership")
        self.gained = asyncio.Event()
        """Set while this replica leads."""
        self.transition = 0
        """The term: this replica's own while it leads, else the last observed one."""

    @property
    def leads(self) -> bool:
        """Whether this replica may place and write now."""
        return self._clock() < self._until

    @property
    def leader(self) -> str | None:
        """Address of the leader's API, as far as this replica knows."""
        if self.leads:
            return self._candidate.address
        if self._lease is None or not self._lease.spec.holder_identity:
            return None
        return self._lease.metadata.annotations.get(ADDRESS_ANNOTATION)

    async def run(self) -> None:
        """Run for leader until cancelled; each attempt is a heartbeat."""
        while True:
            led = self.leads
            await self._attempt()
            if led and not self.leads:
                # Logged only when its time is over, however often a renewal fails before.
                self._log.warning("no longer leading", transition=self.transition)
            if not self.leads:
                self.gained.clear()
            beat()
            await asyncio.sleep(self._pause())

    async def until_over(self) -> None:
        """Wait until this replica no longer leads."""
        while self.leads:  # noqa: ASYNC110 what ends it is the clock
            await asyncio.sleep(max(0.01, self._until - self._clock()))
        self.gained.clear()

    async def raise_transition(self, least: int) -> None:
        """Continue in a term of at least `least`, because the Lease may have been deleted and recreated.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: the Lease could not be written.
        """
        self._least_transition = least
        async with self._writing:
            if self.leads and self.transition < least:
                await self._renew()

    async def withdraw(self) -> None:
        """Release the Lease for good, so that another replica need not wait; keep observing the leader."""
        self._withdrawn = True
        async with self._writing:
            await self._release()

    async def _release(self) -> None:
        if not self.leads or self._lease is None:
            return
        self._until = 0.0
        self.gained.clear()
        try:
            await self._write({"holderIdentity": "", "renewTime": _now()}, {ADDRESS_ANNOTATION: None})
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning("the lease was not released", error=str(error))

    def _pause(self) -> float:
        """Seconds to the next attempt, at most until a deadline passes or the Lease expires."""
        spread = random.uniform(0.8, 1.2)  # noqa: S311 only spreads load
        if self.leads:
            seconds, end = self._timing.retry, self._until
        else:
            seconds, end = min(LOOK_SECONDS, self._timing.retry), self._free_at()
        left = end - self._clock()
        return min(seconds * spread, max(0.01, left)) if left > 0 else seconds * spread

    async def _attempt(self) -> None:
        try:
            async with self._writing:
                if self._yields():
                    await self._release()
                else:
                    await (self._renew() if self.leads else self._observe_lease())
        except (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS) as error:
            self._report(f"{type(error).__name__}: {error}")
        else:
            self._report(None)

    def _yields(self) -> bool:
        """Whether a leader gives up the Lease: once, when it has had a reason not to lead for some time.

        A replica without a reason takes over at once; if there is none, this one leads again.
        """
        reason, now = self._reason_not_to_lead(), self._clock()
        if reason is None:
            self._unfit_since = None
            return False
        self._unfit_since = self._unfit_since or now
        if now - self._unfit_since < YIELD_SECONDS:
            return False
        self._unfit_since = math.inf
        if self.leads:
            self._log.warning("releasing the lease", reason=reason, transition=self.transition)
        return self.leads

    def _report(self, failure: str | None) -> None:
        """Log a failure once, when it changes."""
        if failure != self.failure:
            self.failure = failure
            if failure:
                self._log.warning("lease request failed", leads=self.leads, error=failure)
            else:
                self._log.info("API server reachable again", leads=self.leads)

    async def _observe_lease(self) -> None:
        lease = await self._read()
        if lease is None:
            await self._create()
            return
        if self._lease is None or lease.metadata.resource_version != self._lease.metadata.resource_version:
            self._lease, self._seen_at = lease, self._clock()
            self.transition = lease.spec.lease_transitions or 0
        if not self._withdrawn and self._clock() >= self._free_at():
            await self._take_over(lease)

    def _free_at(self) -> float:
        """When the observed Lease may be taken; later if this replica has a reason not to lead."""
        if self._lease is None:
            return self._clock()
        spec, wait = self._lease.spec, 0.0
        if spec.holder_identity not in {None, "", self._candidate.identity}:
            # The holder's own value counts: in a rolling update its settings may differ from this replica's.
            wait += max(self._timing.duration, spec.lease_duration_seconds or 0)
        if self._unfit_since is not None:
            wait += self._timing.duration
        return self._seen_at + wait

    async def _read(self) -> _Lease | None:
        try:
            return _decode(await self._api.request("GET", self._path, seconds=self._seconds))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _create(self) -> None:
        metadata = {
            "name": self._candidate.lease,
            "annotations": {ADDRESS_ANNOTATION: self._candidate.address},
        }
        spec = {**self._claim(), "leaseTransitions": self._least_transition, "acquireTime": _now()}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        start, collection = self._clock(), self._path.rpartition("/")[0]
        data = await self._api.request("POST", collection, body=body, seconds=self._seconds)
        self._lead(_decode(data), start)

    async def _take_over(self, lease: _Lease) -> None:
        transition = max((lease.spec.lease_transitions or 0) + 1, self._least_transition)
        spec = {**self._claim(), "leaseTransitions": transition, "acquireTime": _now()}
        await self._write(spec, {ADDRESS_ANNOTATION: self._candidate.address})

    async def _renew(self) -> None:
        transition = max(self.transition, self._least_transition)
        spec = {**self._claim(), "leaseTransitions": transition}
        try:
            await self._write(spec, {})
        except ApiError as error:
            if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                raise
            # The Lease was written by another leader, a person, or our own renewal whose answer was lost.
            self._lease = await self._read()
            if self._lease is None or self._lease.spec.holder_identity != self._candidate.identity:
                self._until = 0.0
                raise
            await self._write(spec, {})

    async def _write(self, spec: dict[str, Any], annotations: dict[str, str | None]) -> None:
        if self._lease is None:
            raise AssertionError("only a Lease that was read is written")
        metadata = {"resourceVersion": self._lease.metadata.resource_version, "annotations": annotations}
        start = self._clock()
        data = await self._api.request(
            "PATCH",
            self._path,
            body={"metadata": metadata, "spec": spec},
            content_type=MERGE_PATCH,
            seconds=self._seconds,
        )
        self._lead(_decode(data), start)

    def _lead(self, lease: _Lease, start: float) -> None:
        self._lease, self._seen_at = lease, self._clock()
        self.transition = lease.spec.lease_transitions or 0
        if lease.spec.holder_identity != self._candidate.identity:
            return
        self._until = start + self._timing.renew_deadline
        if not self.gained.is_set():
            self._log.info("leading", transition=self.transition)
            self.gained.set()

    def _claim(self) -> dict[str, Any]:
        return {
            "holderIdentity": self._candidate.identity,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": _now(),
        }

    @property
    def _seconds(self) -> float:
        """Timeout of a request: a leader needs the result by its deadline; a standby retries soon."""
        return max(0.1, min(self._until - self._clock() if self.leads else 5.0, 5.0))

    @property
    def _path(self) -> str:
        namespace, name = self._candidate.namespace, self._candidate.lease
        return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"


def _decode(data: bytes) -> _Lease:
    return msgspec.json.decode(data, type=_Lease)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
