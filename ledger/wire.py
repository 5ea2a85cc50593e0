"""What webhook and controller say to each other, as JSON: one home, because neither imports the other."""

from __future__ import annotations

import msgspec

from ledger.ask import Answer, Ask, Misfit, OverQuota, Placement
from ledger.facts import NodeFact
from ledger.view import LedgerView, NodeView, Waiting

MOST_ASKS = 512
"""Asks in one batch."""


class Batch(msgspec.Struct, frozen=True):
    """Body of `POST /v1/placements`: decided in this order, in one go."""

    asks: list[Ask]
    releases: list[str] = []
    """Reservations to give back first."""


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one ask: exactly one field is set."""

    placement: Placement | None = None
    misfit: Misfit | None = None
    over_quota: OverQuota | None = None

    @classmethod
    def of(cls, answer: Answer) -> Answered:
        """Wrap an answer; the inverse of `answer`."""
        match answer:
            case Placement():
                return cls(placement=answer)
            case Misfit():
                return cls(misfit=answer)
            case OverQuota():
                return cls(over_quota=answer)

    def answer(self) -> Answer:
        """Unwrap it.

        Raises:
            ValueError: no field is set.
        """
        found = self.placement or self.misfit or self.over_quota
        if found is None:
            raise ValueError("an answer holds neither placement nor misfit nor over_quota")
        return found


class Answers(msgspec.Struct, frozen=True):
    """Reply to a batch: one answer for each ask, in their order."""

    answers: list[Answered]


class NotLeading(msgspec.Struct, frozen=True):
    """Reply of a standby, with 409."""

    leader: str | None
    """`https://host:port` of the leader's API; None while there is none."""


class NodeState(msgspec.Struct, frozen=True):
    """One node with GPUs, in a stream: enough to place on it while the controller cannot be asked."""

    fact: NodeFact
    view: NodeView
    cpu_free: int
    """Milli-CPU that pods and promises leave."""
    memory_free: int
    """Bytes, likewise."""


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
    backlog: tuple[Waiting, ...] | None = None
    """All who wait, whenever that changes."""
    synced: bool = False
