"""The rules as a decider that checks patches before they are sent: the first of each kind, then a sample.

A check costs as much as a whole review by the rules. A broken rule affects all pods of a kind, so the first
pod of each kind is checked, and then every 256th.
"""

from __future__ import annotations

from functools import partial

from ledger.placement_request import Placement
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial
from webhook.admission.mutate import Injection
from webhook.admission.patch_check import check_patch
from webhook.admission_request import PodObject, Request
from webhook.decision import Decider, Pending
from webhook.policy_resolver import ResolvedPolicy

EVERY = 256
"""One pod of a kind in this many is checked, which costs less than 1 % of deciding them."""
MAX_KINDS = 1024
"""Beyond it all counts are dropped: policies change."""

Kind = tuple[object, ...]


class CheckedRules:
    """Decides like the rules, and raises if a checked patch must not be sent."""

    pod_type: type[PodObject]

    def __init__(self, rules: Decider) -> None:
        self.pod_type = rules.pod_type
        self._rules = rules
        self._begun: dict[Kind, int] = {}

    def begin(self, request: Request, resolved: ResolvedPolicy) -> Pending | Injection | Denial:
        """Return the decision, or the placement request on which it depends.

        Raises:
            UnsoundPatchError: the patch must not be sent. `Pending.finish` raises it as well.
        """
        begun, policy = self._rules.begin(request, resolved), resolved.policy
        return self._with_check(request, policy, begun, _kind(policy, begun))

    def begin_alias(self, request: Request, resolved: ResolvedPolicy) -> Pending | Injection | Denial | None:
        """Return the same for an unlabelled pod in another system's syntax; None if it uses none.

        Raises:
            UnsoundPatchError: as `begin`.
        """
        begun, policy = self._rules.begin_alias(request, resolved), resolved.policy
        if begun is None:
            return None
        return self._with_check(request, policy, begun, ("alias", *_kind(policy, begun)))

    def _with_check(
        self, request: Request, policy: EffectivePolicy, begun: Pending | Injection | Denial, kind: Kind
    ) -> Pending | Injection | Denial:
        if isinstance(begun, Denial) or not self._is_next(kind):
            return begun
        if isinstance(begun, Pending):
            return Pending(begun.request, partial(_finish, request, begun), policy)
        return _checked(request, policy, begun)

    def _is_next(self, kind: Kind) -> bool:
        count = self._begun.get(kind, 0)
        if len(self._begun) >= MAX_KINDS:
            self._begun.clear()
        self._begun[kind] = count + 1
        return count % EVERY == 0


def _finish(request: Request, pending: Pending, placement: Placement) -> Injection | Denial:
    return _checked(request, pending.policy, pending.finish(placement))


def _checked(request: Request, policy: EffectivePolicy, decided: Injection | Denial) -> Injection | Denial:
    found = request.whole_object()
    # Fields that no rule reads may be nested too deeply to be decoded.
    if not isinstance(decided, Denial) and not isinstance(found, Denial):
        check_patch(found, decided.patch, request.namespace, policy, decided.placement)
    return decided


def _kind(policy: EffectivePolicy, begun: Pending | Injection | Denial) -> Kind:
    """Return what distinguishes pods to which different rules apply, without any text of a pod."""
    if not isinstance(begun, Pending):
        return policy.marker, policy.queue
    placing = begun.request
    asked = placing.share.fraction
    return (
        policy.marker,
        policy.queue,
        asked.slices > asked.slices_per_gpu,
        asked.mib > 0,
        asked.parts > 1,
        len(asked.split) > 0,
        placing.demands.existing is None,
    )
