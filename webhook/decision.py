"""The results of deciding a review."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ledger.placement_request import OverQuota, Placement, PlacementRequest
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason
from webhook.admission.mutate import Injection
from webhook.placing.placer import Unanswered, Unplaced


class Pending(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A decision that waits for a placement."""

    request: PlacementRequest
    finish: Callable[[Placement], Injection | Denial]
    """Returns the patch for a placement, or the denial of a rule that the placement breaks. Pure."""
    policy: EffectivePolicy


class Outcome(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One decision, to be answered, logged and counted. Never contains text of the pod."""

    reason: Reason
    patch: bytes = b""
    """JSON text of the JSON Patch; empty if nothing changes."""
    denial: Denial | None = None
    injection: Injection | None = None
    policy: EffectivePolicy | None = None
    error: str | None = None
    """Type and location of an internal error, for the admin."""

    @classmethod
    def of(cls, decided: Injection | Denial, policy: EffectivePolicy | None) -> Outcome:
        """Return the outcome of a decision under a policy."""
        if isinstance(decided, Denial):
            return cls(decided.reason, denial=decided, policy=policy)
        reason = Reason.INJECTED if decided.patch else Reason.UNCHANGED
        return cls(reason, decided.patch, None, decided, policy)


def deny_unplaced(result: Unplaced) -> Denial:
    """Return the denial of a pod without a placement."""
    if isinstance(result, Unanswered):
        return Denial.of(result.reason, result.why)
    if isinstance(result, OverQuota):
        return Denial.of(Reason.OVER_QUOTA, _over_quota(result))
    if result.is_for_now:
        return Denial.of(Reason.NO_PIECE, result.why)
    return Denial.of(Reason.NO_NODE, f"no node of this cluster could ever hold the pod: {result.why}")


def _over_quota(result: OverQuota) -> str:
    """Say what is used and requested, and what can help: waiting only if there is something to wait for."""
    of = f'quota of {result.quota.scope} "{result.quota.name}"'
    if not result.limit:
        return f"{of} is 0, which allows no labelled pods: use another, or ask the admin"
    unit = "MiB of GPU memory" if result.unit == "MiB" else result.unit
    used = f"{of}: {result.used} of {result.limit} {unit} are used, {result.asked} more requested"
    if result.unit == "pods":
        return f"{used}: wait until one ends, or ask the admin for more"
    if result.asked > result.limit:
        return f"{used}: use a smaller fraction, or ask the admin for more"
    return f"{used}: wait, use a smaller fraction, or ask the admin for more"
