"""The rules as a decider that checks patches before they are sent: the first of each kind, and then some.

A check costs as much as the whole review of a pod that the rules decide. What a broken rule spoils, it spoils
for all pods of a kind: the first is checked, and of the later ones each 128th.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from ledger.placement_request import Placement, PlacementRequest
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial
from webhook.admission.mutate import Injection
from webhook.admission.patch_check import check_patch
from webhook.admission_request import PodObject, Request
from webhook.decision import Decider, Pending
from webhook.policy_resolver import ResolvedPolicy

EVERY = 128
"""Of the pods of a kind one in so many is checked: 1 % of what they cost."""
MAX_KINDS = 1024
"""Beyond that their counts are forgotten: policies change."""

Kind = tuple[object, ...]


class CheckedRules:
    """Decides as the rules do, and raises where the patch of a pod that it checks must not be sent."""

    pod_type: type[PodObject]

    def __init__(self, rules: Decider) -> None:
        self.pod_type = rules.pod_type
        self._rules = rules
        self._decided = Counter[Kind]()

    def begin(self, request: Request, resolved: ResolvedPolicy) -> Pending | Injection | Denial:
        """Return the decision, or the placement request that it depends on.

        Raises:
            UnsoundPatchError: the patch must not be sent. What comes of a placement raises it likewise.
        """
        begun = self._rules.begin(request, resolved)
        if isinstance(begun, Pending):
            return Pending(begun.request, partial(self._finish, request, begun), begun.policy)
        return self._checked(request, resolved.policy, None, begun)

    def _finish(self, request: Request, pending: Pending, placement: Placement) -> Injection | Denial:
        return self._checked(request, pending.policy, pending.request, pending.finish(placement))

    def _checked(
        self,
        request: Request,
        policy: EffectivePolicy,
        placing: PlacementRequest | None,
        decided: Injection | Denial,
    ) -> Injection | Denial:
        if isinstance(decided, Denial) or not self._is_next(_kind(policy, placing, decided.placement)):
            return decided
        found = request.whole_object()
        # What no rule reads may be nested deeper than can be decoded.
        if not isinstance(found, Denial):
            check_patch(found, decided.patch, request.namespace, policy, decided.placement)
        return decided

    def _is_next(self, kind: Kind) -> bool:
        if len(self._decided) >= MAX_KINDS:
            self._decided.clear()
        self._decided[kind] += 1
        return self._decided[kind] % EVERY == 1


def _kind(policy: EffectivePolicy, placing: PlacementRequest | None, placement: Placement) -> Kind:
    """Return what tells pods apart in which different rules write; no text of theirs is in it."""
    of_policy = policy.marker, policy.queue, bool(placement.memory_values), placement.instance is not None
    if placing is None:
        return of_policy
    fraction = placing.fraction
    asked = bool(fraction.mib), fraction.is_whole, fraction.parts > 1, bool(fraction.split)
    return *of_policy, *asked, fraction.is_apart, bool(placing.resource), placing.keeps is not None
