"""Annotations that say what was decided belong only to us."""

import pytest

from tests.webhook.support import decide, pod, policies, reviewed


def test_a_forged_annotation_that_does_not_hold_for_this_pod_is_removed():
    forged = {"clearml-injector/reservation": "x", "clearml-injector/gpu-index": "7"}
    policy_set = policies("resources: {mode: pooled}\nassume: {gpusPerNode: 1, gpuMemoryMiB: 81920}")
    decided = decide(pod(metadata={"annotations": forged}), policy_set, dryRun=True)
    names = ("injected", "slices", "gpu-container", "memory-mib")
    assert set(decided.annotations) == {f"clearml-injector/{name}" for name in names}


@pytest.mark.parametrize("name", ["x" * 2**17, "two words", "a/b"])
def test_a_reservation_that_nobody_can_have_made_is_taken_off_the_pod(name):
    webhook, injected = reviewed(policy_set=policies("quotas: {namespaces: {team: {slices: 64}}}"))
    injected["metadata"]["annotations"]["clearml-injector/reservation"] = name
    again = webhook.decide(injected, uid="another")
    assert again.annotations.get("clearml-injector/reservation") != name
