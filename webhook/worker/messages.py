"""The messages between a worker and the webhook's process: msgpack, each preceded by its length."""

from __future__ import annotations

import msgspec

from ledger.placement_request import Placement, PlacementRequest
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason
from webhook.admission.mutate import Injection
from webhook.decision import Outcome

LENGTH_BYTES = 4


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """The decision depends on a placement, which is the reply."""

    request: PlacementRequest


class Decided(msgspec.Struct, frozen=True, tag="decided"):
    """The decision: an outcome without its policy, which the other side has."""

    reason: Reason
    patch: bytes
    denial: Denial | None
    injection: Injection | None
    error: str | None
    has_policy: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Decided:
        """Wrap an outcome; the inverse of `outcome`."""
        injection = outcome.injection
        if injection is not None:
            injection = msgspec.structs.replace(injection, patch=b"")
        has_policy = outcome.policy is not None
        return cls(outcome.reason, outcome.patch, outcome.denial, injection, outcome.error, has_policy)

    def outcome(self, policy: EffectivePolicy | None) -> Outcome:
        """Unwrap it, under the policy of the review if it has one."""
        injection = self.injection
        if injection is not None:
            injection = msgspec.structs.replace(injection, patch=self.patch)
        known = policy if self.has_policy else None
        return Outcome(self.reason, self.patch, self.denial, injection, known, self.error)


_encode = msgspec.msgpack.Encoder().encode
_step: msgspec.msgpack.Decoder[Ask | Decided] = msgspec.msgpack.Decoder(Ask | Decided)
_placement = msgspec.msgpack.Decoder(Placement)


def framed(message: Ask | Decided | Placement) -> bytes:
    """Return a message with its length, ready to send."""
    text = _encode(message)
    return len(text).to_bytes(LENGTH_BYTES) + text


def read_step(text: bytes) -> Ask | Decided:
    """Read a worker's message.

    Raises:
        ValueError: it is not a valid message.
    """
    return _step.decode(text)


def read_placement(text: bytes) -> Placement:
    """Read the message that brings a placement to a worker."""
    return _placement.decode(text)
