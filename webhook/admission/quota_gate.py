"""The scheduling gate of pods that wait for a quota: the webhook adds it, only the controller removes it."""

from __future__ import annotations

from kube.names import QUOTA_GATE
from ledger.placement_request import Placement
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, append
from webhook.admission.pod import PodSpec

_SPEC = "/spec/schedulingGates"


def has_gate(spec: PodSpec) -> bool:
    """Whether the pod has our gate."""
    return any(gate.name == QUOTA_GATE for gate in spec.scheduling_gates or ())


def refuse_gate(spec: PodSpec, policy: EffectivePolicy) -> Denial | None:
    """Refuse our gate on a pod whose policy lets no pod wait: nobody would remove it."""
    if policy.demands.when_over_quota == "wait" or not has_gate(spec):
        return None
    return Denial.of(
        Reason.QUOTA_GATE,
        f"schedulingGates: {QUOTA_GATE} is for pods that wait for a quota, and policy {policy.name} lets none"
        " wait: remove it",
    )


def close_gate(spec: PodSpec, placement: Placement) -> list[Operation]:
    """Return the operations that add the gate to a pod that must wait."""
    if not placement.waits_for_quota or has_gate(spec):
        return []
    return append(_SPEC, spec.scheduling_gates, [{"name": QUOTA_GATE}])
