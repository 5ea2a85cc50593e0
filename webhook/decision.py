"""What a labelled pod's review still has to know of the ledger, and what the answer makes of the pod."""

from __future__ import annotations

import msgspec

from ledger.placement_request import OverQuota, Placement, PlacementRequest, PlacementResult, Unschedulable
from policies.model.effective import EffectivePolicy
from webhook.admission.annotations import INJECTED
from webhook.admission.denial import Denial, Reason
from webhook.admission.existing_injection import NOTHING_WRITTEN, Written
from webhook.admission.mutate import Injection, inject
from webhook.admission.placement_request import AskingPod, ask_of, for_pod
from webhook.admission.refusals import refuse_index
from webhook.admission.sizes import refuse_oversized
from webhook.admission.validate import Plan, make_plan
from webhook.envelope import Request
from webhook.following import Followed
from webhook.patch_cache.cache import KnownForm
from webhook.patch_cache.outline import PodOutline
from webhook.placing.placer import Unanswered


class Question(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A question to the ledger, asked for one pod."""

    ask: PlacementRequest
    policy: EffectivePolicy

    def conclude(self, answer: PlacementResult | Unanswered) -> Injection | Denial:
        """Make the decision of the answer."""
        raise NotImplementedError


class KnownPod(Question, frozen=True, eq=False, gc=False):
    """Of a pod whose form is known."""

    request: Request
    pod: PodOutline
    known: KnownForm

    def conclude(self, answer: PlacementResult | Unanswered) -> Injection | Denial:
        """Fill the form's stencil in; where a rule has something against the placement, it tells the pod."""
        if not isinstance(answer, Placement):
            return _refused(answer)
        injection = self.known.inject(self.pod, answer)
        if injection is not None:
            return injection
        plan = _plan(self.request, self.policy)
        return plan if isinstance(plan, Denial) else inject(plan, answer)


class PlannedPod(Question, frozen=True, eq=False, gc=False):
    """Of a pod that the rules were asked about."""

    plan: Plan

    def conclude(self, answer: PlacementResult | Unanswered) -> Injection | Denial:
        """Give the pod the placement's share."""
        return inject(self.plan, answer) if isinstance(answer, Placement) else _refused(answer)


class PlacedPod(Question, frozen=True, eq=False, gc=False):
    """Of a pod that carries a placement from an earlier review."""

    plan: Plan
    kept: Placement

    def conclude(self, answer: PlacementResult | Unanswered) -> Injection | Denial:
        """Let stand what the pod brings, unless the ledger knows better: it may have been written by hand."""
        plan = self.plan
        if not isinstance(answer, Placement):
            return _refused(answer)
        if plan.keeps_assumption and answer.memory_values:
            return refuse_index(plan.containers) or inject(plan, answer)
        if self.ask.reservation is None:
            return inject(plan, self.kept)
        kept = msgspec.structs.replace(self.kept, reservation=answer.reservation, degraded=answer.degraded)
        return inject(plan, kept)


def ask_for_known(request: Request, pod: PodOutline, followed: Followed, known: KnownForm) -> KnownPod:
    """Ask for a pod of a known form."""
    ask = for_pod(known.ask, _asking(request, followed), followed.policy)
    return KnownPod(ask, followed.policy, request, pod, known)


def ask_by_rules(request: Request, followed: Followed) -> Question | Injection | Denial:
    """Ask the rules about a pod, then for it; some pods are decided without a question."""
    policy = followed.policy
    plan = _plan(request, policy)
    if isinstance(plan, Denial):
        return plan
    kept = plan.kept
    if kept is not None and not policy.quotas and not plan.keeps_assumption:
        return inject(plan, kept)
    ask = ask_of(plan, _asking(request, followed))
    if isinstance(ask, Denial):
        return ask
    return PlannedPod(ask, policy, plan) if kept is None else PlacedPod(ask, policy, plan, kept)


def _asking(request: Request, followed: Followed) -> AskingPod:
    reservation = None if request.dry_run else request.uid
    identity = request.pod_identity() if followed.policy.quotas else ""
    owner = request.owner(followed.queues) if followed.policy.asks_for_owners else ""
    return AskingPod(request.namespace, followed.queues, reservation, identity, owner)


def _plan(request: Request, policy: EffectivePolicy) -> Plan | Denial:
    pod = request.pod()
    if isinstance(pod, Denial):
        return pod
    if pod.metadata is None or INJECTED not in (pod.metadata.annotations or ()):
        return make_plan(pod, request.namespace, policy, NOTHING_WRITTEN)
    # Before the whole object is read, which costs more than all that the rules read.
    oversized = refuse_oversized(pod.metadata, pod.spec) if pod.spec is not None else None
    whole = oversized or request.whole_object()
    return whole if isinstance(whole, Denial) else make_plan(pod, request.namespace, policy, Written(whole))


def _over_quota(answer: OverQuota) -> str:
    """Say what is used and asked, and what can help: waiting where there is something to wait for."""
    of = f'quota of {answer.quota.scope} "{answer.quota.name}"'
    if not answer.limit:
        return f"{of} is 0, so that it takes no labelled pods: use another, or ask the admin"
    used = f"{of}: {answer.used} of {answer.limit} {answer.unit} are used, {answer.asked} more were asked"
    if answer.unit == "pods":
        return f"{used}: wait until one ends, or ask the admin for more"
    if answer.asked > answer.limit:
        return f"{used}: use a smaller fraction, or ask the admin for more"
    return f"{used}: wait, use a smaller fraction, or ask the admin for more"


def _refused(answer: PlacementResult | Unanswered) -> Denial:
    if isinstance(answer, Unanswered):
        return Denial.of(answer.reason, answer.why)
    if isinstance(answer, OverQuota):
        return Denial.of(Reason.OVER_QUOTA, _over_quota(answer))
    assert isinstance(answer, Unschedulable)  # noqa: S101 the last of three kinds; for the type checker
    return Denial.of(Reason.NO_NODE, f"no node of this cluster could ever hold the pod: {answer.why}")
