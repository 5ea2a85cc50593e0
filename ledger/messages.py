"""What webhook and controller say to each other, as JSON: one home, because neither imports the other."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kube.names import MAX_LABEL_VALUE, MAX_NAME
from ledger.facts import NodeFact
from ledger.owners import Replicas
from ledger.placement.preference import family_requests
from ledger.placement_request import (
    Accounting,
    Demands,
    OverQuota,
    Placement,
    PlacementRequest,
    PlacementResult,
    RequestedShare,
    Unschedulable,
)
from ledger.view import LedgerView, NodeView, PendingView

MAX_ASKS = 512
"""Asks in one batch."""
MAX_REQUEST_BYTES = 2**19
"""Of one request as JSON: more than all demands come to that a pod may have."""
MAX_ASKS_BYTES = 3 * 2**20
"""Of all requests in one batch; the controller reads no more than 4 MiB."""
MAX_RELEASES = 1000
MAX_POLICY_FILES = 200
MAX_POLICIES_BYTES = 6 * 2**20
"""Of a reply with policies: 4 MiB of files as base64, and their names."""
MAX_DENIALS = 100
"""Reasons in namespaces in one report of denials."""
MAX_DENIAL_REPORT_BYTES = 2**17
"""Of such a report: 100 lines of 200 characters, and what stands beside them."""
MAX_SERVED_POLICIES_BYTES = 2048
"""Of a report of the policies that a webhook serves."""
MAX_DENIAL_LINE = 200
"""Characters."""
_Reason = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)]
_Namespace = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)]
_DeniedPods = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
_DenialLine = Annotated[str, msgspec.Meta(max_length=MAX_DENIAL_LINE)]
_FileName = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Webhook = Annotated[str, msgspec.Meta(pattern=r"^[-.A-Za-z0-9]+\Z", max_length=MAX_NAME)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f.]*\Z", max_length=MAX_LABEL_VALUE)]
_Release = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]

_share = msgspec.json.Decoder(RequestedShare).decode
_demands = msgspec.json.Decoder(Demands).decode
_accounting = msgspec.json.Decoder(Accounting).decode
_encode = msgspec.json.Encoder().encode


class Batch(msgspec.Struct, frozen=True):
    """Body of `POST /v1/placements`: decided in this order, in one go."""

    asks: list[msgspec.Raw]
    """Each of `write_request`, so that one that cannot be read spoils no other."""
    releases: Annotated[list[_Release], msgspec.Meta(max_length=MAX_RELEASES)] = []
    """Reservations to give back first."""


def write_request(request: PlacementRequest) -> bytes:
    """Return one request as JSON: its parts are one flat object, as every release writes and reads it."""
    parts = request.share, request.demands, request.accounting
    return b"{" + b",".join([_encode(part)[1:-1] for part in parts]) + b"}"


def read_request(data: msgspec.Raw) -> PlacementRequest:
    """Read one request of a batch.

    Raises:
        ValueError: it is none, or larger than any of the webhook's, or no mode or placement goes with it.
    """
    size = len(memoryview(data))
    if size > MAX_REQUEST_BYTES:
        raise ValueError(f"{size} bytes are over {MAX_REQUEST_BYTES}")
    request = PlacementRequest(_share(data), _demands(data), _accounting(data))
    demands = request.demands
    if demands.existing is not None:
        _check_existing(request, demands.existing)
    if demands.prefer and not family_requests(request):
        raise ValueError(f"it prefers no mode that gives {demands.resource or 'slices'}")
    return request


def _check_existing(request: PlacementRequest, existing: Placement) -> None:
    request.share.allocated(existing)
    if existing.instance is not None and existing.indices != existing.instance.indices:
        taken = existing.instance.indices
        raise ValueError(f"it keeps an instance that is taken from {existing.indices} and not from {taken}")


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one request: exactly one field is set."""

    placement: Placement | None = None
    misfit: Unschedulable | None = None
    over_quota: OverQuota | None = None
    refused: str | None = None
    """Why this request alone could not be decided."""

    @classmethod
    def of(cls, answer: PlacementResult) -> Answered:
        """Wrap an answer; the inverse of `answer`."""
        match answer:
            case Placement():
                return cls(placement=answer)
            case Unschedulable():
                return cls(misfit=answer)
            case OverQuota():
                return cls(over_quota=answer)

    def answer(self) -> PlacementResult:
        """Unwrap it.

        Raises:
            ValueError: the request was refused, or no field is set.
        """
        if self.refused is not None:
            raise ValueError(f"the controller refused the request: {self.refused}")
        found = self.placement or self.misfit or self.over_quota
        if found is None:
            raise ValueError("an answer holds neither placement nor misfit nor over_quota")
        return found


class Answers(msgspec.Struct, frozen=True):
    """Reply to a batch: one answer for each request, in their order."""

    answers: list[Answered]


class NotLeading(msgspec.Struct, frozen=True):
    """Reply of a standby, with 409."""

    leader: str | None
    """`https://host:port` of the leader's API; None while there is none."""


class NodeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node with GPUs, in a stream: enough to place on it while the controller cannot be asked."""

    fact: NodeFact
    view: NodeView
    cpu_free: int
    """Milli-CPU that pods and promises leave."""
    memory_free: int
    """Bytes, likewise."""
    replicas: tuple[Replicas, ...] = ()
    """Of owners that the controller was asked about lately: pods to be spread, or of one model."""


class LedgerReply(msgspec.Struct, frozen=True):
    """Reply to `GET /v1/ledger`."""

    ledger: LedgerView
    leader: str | None
    lease_transition: int


class StreamEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of `GET /v1/ledger/stream`: exactly one field is set.

    A stream begins with every node and the backlog, then `synced`, then what changes.
    """

    node: NodeState | None = None
    gone: str | None = None
    """Name of a node that is gone, or has no GPUs any more."""
    backlog: tuple[PendingView, ...] | None = None
    """All who wait, whenever that changes."""
    synced: bool = False


class HandedPolicies(msgspec.Struct, frozen=True):
    """Reply to `GET /v1/policies`: the files of the last good policy set, as they were read."""

    digest: str
    """Of the set, for people."""
    files: Annotated[dict[_FileName, bytes], msgspec.Meta(max_length=MAX_POLICY_FILES)]
    """Content by name."""


class ServedPolicies(msgspec.Struct, frozen=True):
    """Body of `POST /v1/served-policies`: what one webhook serves, told every few seconds."""

    webhook: _Webhook
    """Its name, which no other has."""
    digest: _Digest
    """Of the set in force; empty while there is none."""


class DenialCount(msgspec.Struct, frozen=True, gc=False):
    """Pods of one namespace that were denied for one reason."""

    reason: _Reason
    """A code of docs/reference/reasons.md, perhaps of a newer webhook."""
    namespace: _Namespace
    pods: _DeniedPods
    message: _DenialLine
    """The line that the last of them was told."""


class DenialReport(msgspec.Struct, frozen=True):
    """Body of `POST /v1/denials`: what one webhook has denied since its last report, seconds ago."""

    denials: Annotated[list[DenialCount], msgspec.Meta(max_length=MAX_DENIALS)]
