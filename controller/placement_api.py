"""The HTTP API of the controller, over mTLS. Only the leader places pods; all replicas serve the ledger.

| situation | status |
|---|---|
| this replica does not lead | 409 with the leader's address, for placements and denials |
| nodes and pods are not listed yet | 503 |
| ResourceSlices are not listed yet | 200, pending, for claims of a part or kind of card, and under a quota |
| nor ResourceClaims | 200, pending, for a claim or an instance by room |
| a claim's template is not stored within 0.1 s | 200, pending: the same request gets it later |
| the body is not a batch or a report | 400 |
| the body exceeds 4 MiB; of denials 128 KiB | 413 |
| one request cannot be read or decided | 200, refused in its own answer |
| no good policy set since this replica started | 404 |
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from cluster.leadership import Leadership
from controller.claims.claim_templates import ClaimTemplates
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from ledger.claims import needs_cards
from ledger.denial_counts import DenialWindow
from ledger.messages import (
    MAX_ASKS,
    MAX_DENIAL_REPORT_BYTES,
    Answered,
    Answers,
    Batch,
    DenialCount,
    DenialReport,
    NotLeading,
    PoliciesReply,
    StreamEvent,
    read_request,
)
from ledger.placement_request import Placement, PlacementRequest
from service.changes import Changes
from service.log import get_logger
from service.yielding import NODES_AT_ONCE, TimeSlice

MAX_BODY = 4 * 1024 * 1024
"""Maximum bytes of a batch."""
BEAT_SECONDS = 1.0
"""Maximum silence of a stream, so that its reader detects a dead connection."""
GATHER_SECONDS = 0.05
"""Changes within this time are sent together."""
MAX_REFUSAL = 200
"""Characters of the reason why one request was refused."""
_NO_TEMPLATES = (
    "the controller makes no claims: ask the admin to install the chart with a policy of this mode"
)
CLAIM_SECONDS = 0.1
"""How long a batch waits for the templates of its claims: other pods' requests wait for the same reply."""
_NOT_LISTED = "the controller has not listed the ResourceSlices yet: try again; if this stays, ask the admin"
_NOT_MADE = "the API server has not stored the claim's template yet: try again"
_BEAT = b": beat\n\n"

T = TypeVar("T")
_batch = msgspec.json.Decoder(Batch)
_denial_report = msgspec.json.Decoder(DenialReport)
_encode = msgspec.json.Encoder().encode


class ControllerApi:
    """The HTTP API of one controller, for webhooks."""

    def __init__(
        self,
        state: LedgerStore,
        leadership: Leadership,
        metrics: ControllerMetrics,
        policies: Callable[[], PoliciesReply | None] = lambda: None,
        *,
        templates: ClaimTemplates | None = None,
    ) -> None:
        """`policies` returns the last good set, for webhooks that start on a broken one."""
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._policies = policies
        self._templates = templates
        self._denials = DenialWindow()
        self._stopping = False
        self._log = get_logger("placement")

    def stop_streams(self) -> None:
        """End all streams, so that the server can drain."""
        self._stopping = True

    def denials(self) -> list[DenialCount] | None:
        """Return the denials of the last hour, the latest first; None on a standby, which gets no reports."""
        return self._denials.of_last_hour(time.monotonic()) if self._leadership.leads else None

    def app(self) -> FastAPI:
        """Return the app of the TLS port."""
        router = APIRouter(prefix="/v1")
        router.add_api_route("/placements", self._placements, methods=["POST"], response_class=Response)
        router.add_api_route("/denials", self._take_denials, methods=["POST"], response_class=Response)
        router.add_api_route("/policies", self._last_policies, response_class=Response)
        router.add_api_route("/ledger/stream", self._stream, response_class=Response)
        app = FastAPI(title="GPU Fraction Injector: controller", openapi_url=None)
        app.include_router(router)
        return app

    async def _placements(self, request: Request) -> Response:
        """Decide a batch of requests in order."""
        batch = await _decoded(request, _batch, MAX_BODY, "batch of requests")
        if isinstance(batch, Response):
            return batch
        if len(batch.asks) > MAX_ASKS:
            return _text(400, f"{len(batch.asks)} requests are more than {MAX_ASKS}: send fewer at once")
        if self._leadership.leads and self._state.missing:
            return _text(503, self._state.missing)
        answers = await self._decide(batch) if self._leadership.leads else None
        if answers is None:
            return _json(NotLeading(self._leadership.leader), status=409)
        return _json(Answers(answers))

    async def _take_denials(self, request: Request) -> Response:
        """Add the recent denials of a webhook."""
        report = await _decoded(request, _denial_report, MAX_DENIAL_REPORT_BYTES, "report of denials")
        if isinstance(report, Response):
            return report
        if not self._leadership.leads:
            return _json(NotLeading(self._leadership.leader), status=409)
        now = time.monotonic()
        for counted in report.denials:
            self._denials.add(counted, now)
        return _json({})

    async def _decide(self, batch: Batch) -> list[Answered] | None:
        """Answer the requests in order; None as soon as this replica does not lead."""
        start, time_slice = time.perf_counter(), TimeSlice()
        answers = list[Answered | asyncio.Task[Answered]]()
        for reservation in batch.releases:
            self._state.ledger.release(reservation)
            await time_slice.pause()
        for request in batch.asks:
            if not self._leadership.leads:
                return None
            answers.append(self._answer(request))
            await time_slice.pause()
        self._metrics.batch_seconds.observe(time.perf_counter() - start)
        return [each if isinstance(each, Answered) else await each for each in answers]

    def _answer(self, data: msgspec.Raw) -> Answered | asyncio.Task[Answered]:
        """Decide one request; if it cannot be read or decided, only this request is refused."""
        try:
            request = read_request(data)
            return self._claim(request) if request.share.mode_type.is_claimed else self._place(request)
        except ValueError as error:
            return Answered(refused=str(error)[:MAX_REFUSAL])

    def _place(self, request: PlacementRequest) -> Answered:
        try:
            answer = self._state.place(request)
        except Exception as error:  # noqa: BLE001 whatever fails, the rest of the batch is answered
            return self._broken(error)
        self._metrics.answered(answer)
        return Answered.of(answer)

    def _claim(self, request: PlacementRequest) -> Answered | asyncio.Task[Answered]:
        """Decide a request for a claim; the claim's template is made meanwhile, if the pod is no dry run."""
        if self._templates is None:
            return Answered(refused=_NO_TEMPLATES)
        accounting, prefer = request.accounting, request.demands.prefer
        is_counted = bool(accounting.quotas or prefer) or needs_cards(request)
        is_listed = self._state.offers_listed.is_set() and (not prefer or self._state.claims_listed.is_set())
        if is_counted and not is_listed:
            return Answered(pending=_NOT_LISTED)
        answer = self._place(request)
        is_claim = answer.placement is not None and request.share.is_claim(answer.placement)
        if answer.placement is None or not is_claim or accounting.reservation is None:
            return answer
        making = self._templates.ensure(request, answer.placement)
        return asyncio.ensure_future(self._with_template(answer.placement, making))

    async def _with_template(self, placement: Placement, making: Awaitable[str | None]) -> Answered:
        """Return the placement once its template is made; after CLAIM_SECONDS it is requested again."""
        try:
            problem = await asyncio.wait_for(making, CLAIM_SECONDS)
        except TimeoutError:
            return Answered(pending=_NOT_MADE)
        except Exception as error:  # noqa: BLE001 as above
            return self._broken(error)
        if problem is None:
            return Answered(placement=placement)
        if placement.reservation is not None:
            self._state.ledger.release(placement.reservation)
        return Answered(refused=problem[:MAX_REFUSAL])

    def _broken(self, error: Exception) -> Answered:
        kind, frame = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        self._log.error("a request has broken the ledger and was refused", error=f"{kind} at {place}")
        return Answered(refused=f"internal error ({kind}), see the controller's log")

    async def _last_policies(self) -> Response:
        """The files of the last good policy set."""
        found = self._policies()
        return (
            _json(found) if found is not None else _text(404, "no good policy set since this replica started")
        )

    async def _stream(self) -> Response:
        """Server-sent events: the whole state, then changes."""
        if self._state.missing:
            return _text(503, self._state.missing)
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        changes = self._state.subscribe()
        changes.follows_cards = False
        try:
            yield await self._pending(changes)
            async for part in self._nodes(changes):
                yield part
            yield _event(StreamEvent(synced=True))
            while not self._stopping:
                beat = time.monotonic() + BEAT_SECONDS
                while (left := beat - time.monotonic()) > 0 and not self._stopping:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(changes.wait(), left)
                        await asyncio.sleep(GATHER_SECONDS)
                    async for part in self._nodes(changes):
                        yield part
                # The backlog is sent only with the beat, because it is a whole list each time.
                yield await self._pending(changes) or _BEAT
        finally:
            self._state.unsubscribe(changes)

    async def _nodes(self, changes: Changes) -> AsyncIterator[bytes]:
        async for names in self._state.yielding.batches(changes.take(), NODES_AT_ONCE):
            known = [(name, self._state.node_state(name)) for name in names]
            yield b"".join(
                [_event(StreamEvent(node=node, gone=None if node else name)) for name, node in known]
            )

    async def _pending(self, changes: Changes) -> bytes:
        if not changes.backlog:
            return b""
        changes.backlog = False
        parts = list[bytes]()
        async for keys in self._state.yielding.batches(self._state.ledger.pending_keys()):
            if waiting := self._state.ledger.pending_of(keys):
                parts.append(_encode(waiting)[1:-1])
        return b'data: {"backlog":[%b]}\n\n' % b",".join(parts)


async def _decoded(
    request: Request, decoder: msgspec.json.Decoder[T], max_bytes: int, what: str
) -> T | Response:
    """Return the decoded body, or the response that rejects it; it is read no further than the limit."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > max_bytes:
                return _text(413, f"the body is over {max_bytes} bytes")
        return decoder.decode(body)
    except (ClientDisconnect, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _text(400, f"not a {what}: {error}")


def _event(event: StreamEvent) -> bytes:
    return b"data: " + _encode(event) + b"\n\n"


def _json(content: object, status: int = 200) -> Response:
    return Response(_encode(content), status, media_type="application/json")


def _text(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain")
