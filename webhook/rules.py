"""The rules as a decider: decode the pod, validate it, request a placement, mutate the pod."""

from __future__ import annotations

from functools import partial

import msgspec

from ledger.placement_request import Placement
from webhook.admission.denial import Denial
from webhook.admission.mutate import Injection, inject
from webhook.admission.placement_request import AskingPod, ask_of
from webhook.admission.refusals import refuse_index
from webhook.admission.validate import Plan, make_plan
from webhook.decision import Pending
from webhook.following import Followed
from webhook.request import PodObject, Request


class Rules:
    """Puts every pod through all rules."""

    pod_type: type[PodObject] = PodObject

    def begin(self, request: Request, followed: Followed) -> Pending | Injection | Denial:
        """Return the decision, or the placement request that it depends on."""
        policy = followed.policy
        pod = request.pod()
        if isinstance(pod, Denial):
            return pod
        plan = make_plan(pod, request.namespace, policy, request.whole_object)
        if isinstance(plan, Denial):
            return plan
        kept = plan.kept
        if kept is not None and not policy.quotas and not plan.keeps_assumption:
            return inject(plan, kept)
        ask = ask_of(plan, asking_pod(request, followed))
        if isinstance(ask, Denial):
            return ask
        if kept is None:
            return Pending(ask, partial(inject, plan), policy)
        is_reserved = ask.reservation is not None
        return Pending(ask, partial(_keep, plan, kept, is_reserved=is_reserved), policy)


def asking_pod(request: Request, followed: Followed) -> AskingPod:
    """Return what a placement request holds of this pod alone."""
    policy = followed.policy
    reservation = None if request.dry_run else request.uid
    identity = request.pod_identity() if policy.quotas else ""
    owner = request.owner(followed.queues) if policy.asks_for_owners else ""
    return AskingPod(request.namespace, followed.queues, reservation, identity, owner)


def _keep(plan: Plan, kept: Placement, result: Placement, *, is_reserved: bool) -> Injection | Denial:
    """Keep the placement that a pod carries, unless the ledger knows better: it may be written by hand."""
    if plan.keeps_assumption and result.memory_values:
        return refuse_index(plan.containers) or inject(plan, result)
    if not is_reserved:
        return inject(plan, kept)
    named = msgspec.structs.replace(kept, reservation=result.reservation, degraded=result.degraded)
    return inject(plan, named)
