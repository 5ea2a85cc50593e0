"""Messages between webhook and controller, as JSON. They are here because neither imports the other."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kube.names import MAX_LABEL_VALUE, MAX_NAME
from ledger.placement.choice import family_requests
from ledger.placement_request import (
    MAX_OWNER,
    OverQuota,
    Placement,
    PlacementRequest,
    PlacementResult,
    Unschedulable,
)
from ledger.view import NodeView, PendingView
from modes.facts import NodeFact

MAX_ASKS = 512
"""Requests in one batch."""
MAX_REQUEST_BYTES = 2**19
"""Bytes of one request as JSON: more than the largest demands that a pod may have."""
MAX_ASKS_BYTES = 3 * 2**20
"""Bytes of all requests in one batch; the controller reads at most 4 MiB."""
MAX_RELEASES = 1000
MAX_POLICIES_BYTES = 6 * 2**20
"""Bytes of a reply with policies: 4 MiB of files as base64, and their names."""
MAX_DENIALS = 100
"""Objects in one report of denials."""
MAX_DENIAL_REPORT_BYTES = 2**17
"""Bytes of such a report: 100 lines of 200 characters, and their other fields."""
MAX_DENIAL_LINE = 200
"""Characters of a denial's message."""
_Release = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)]
_DenialLine = Annotated[str, msgspec.Meta(max_length=MAX_DENIAL_LINE)]

_request = msgspec.json.Decoder(PlacementRequest)
_encode = msgspec.json.Encoder().encode


class Batch(msgspec.Struct, frozen=True):
    """Body of `POST /v1/placements`. Its requests are decided together, in this order."""

    asks: list[msgspec.Raw]
    """Results of `write_request`, decoded one by one: an unreadable request does not affect the others."""
    releases: Annotated[list[_Release], msgspec.Meta(max_length=MAX_RELEASES)] = []
    """Names of reservations to give back first."""


def write_request(request: PlacementRequest) -> bytes:
    """Return one request as JSON."""
    return _encode(request)


def read_request(data: msgspec.Raw) -> PlacementRequest:
    """Read one request of a batch.

    Raises:
        ValueError: it cannot be read, is larger than a webhook's can be, or has no matching mode or
        placement.
    """
    size = len(memoryview(data))
    if size > MAX_REQUEST_BYTES:
        raise ValueError(f"the request has {size} bytes; the maximum is {MAX_REQUEST_BYTES}")
    request = _request.decode(data)
    existing, prefer = request.demands.existing, request.demands.prefer
    if existing is not None:
        request.share.allocated(existing)
        taken = existing.instance.indices if existing.instance is not None else existing.indices
        if taken != existing.indices:
            has = existing.indices
            raise ValueError(f"the existing instance has index {taken}, but the placement has {has}")
    if prefer and not family_requests(request):
        raise ValueError(f"no mode in `prefer` gives {request.demands.resource or 'slices'}")
    return request


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one request. Exactly one field is set."""

    placement: Placement | None = None
    misfit: Unschedulable | None = None
    over_quota: OverQuota | None = None
    refused: str | None = None
    """Why this request could not be decided."""
    pending: str | None = None
    """Why there is no answer yet: the same request gets it later."""

    @classmethod
    def of(cls, answer: PlacementResult) -> Answered:
        """Wrap a result; the inverse of `answer`."""
        match answer:
            case Placement():
                return cls(placement=answer)
            case Unschedulable():
                return cls(misfit=answer)
            case OverQuota():
                return cls(over_quota=answer)

    def answer(self) -> PlacementResult:
        """Unwrap the result.

        Raises:
            ValueError: the request was refused, or no field is set.
        """
        if self.refused is not None:
            raise ValueError(f"the controller refused the request: {self.refused}")
        found = self.placement or self.misfit or self.over_quota
        if found is None:
            raise ValueError("the answer has neither placement, misfit nor over_quota")
        return found


class Answers(msgspec.Struct, frozen=True):
    """Reply to a batch: one answer for each request, in the same order."""

    answers: list[Answered]


class NotLeading(msgspec.Struct, frozen=True):
    """Reply of a standby, with status 409."""

    leader: str | None
    """`https://host:port` of the leader's API; None while there is none."""


class NodeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node with GPUs, in a stream: all that a webhook needs to place pods without the controller."""

    fact: NodeFact
    view: NodeView
    cpu_free: int
    """Milli-CPU that pods and reservations leave free."""
    memory_free: int
    """Bytes that pods and reservations leave free."""
    extended: dict[str, int] = {}
    """What these take of the node's extended resources that are no GPUs."""


class StreamEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of `GET /v1/ledger/stream`. Exactly one field is set.

    A stream begins with all nodes and the backlog. After `synced`, it continues with changes.
    """

    node: NodeState | None = None
    gone: str | None = None
    """Name of a node that was deleted, or lost its GPUs."""
    backlog: tuple[PendingView, ...] | None = None
    """All pending claims, after each change."""
    synced: bool = False


class PoliciesReply(msgspec.Struct, frozen=True):
    """Reply to `GET /v1/policies`: the files of the last good policy set, unchanged."""

    digest: str
    """Digest of the set, for people."""
    files: dict[str, bytes]
    """Content by file name."""


class DenialCount(msgspec.Struct, frozen=True, gc=False):
    """Objects of one namespace that were denied for one reason."""

    reason: str
    namespace: str
    pods: int
    message: str
    """Message of the last of these denials."""


class Denied(msgspec.Struct, frozen=True, gc=False):
    """An object that was denied, once or several times."""

    reason: _Label
    """A code of docs/reference/reasons.md, or one of a newer webhook."""
    namespace: _Label
    message: _DenialLine
    object: Annotated[str, msgspec.Meta(max_length=MAX_OWNER)] = ""
    """A digest of its owner, or of its name without one."""


class DenialReport(msgspec.Struct, frozen=True):
    """Body of `POST /v1/denials`: the denials of one webhook since its last report, seconds ago."""

    denials: Annotated[list[Denied], msgspec.Meta(max_length=MAX_DENIALS)]
