"""Policy key limits.from: under `agent` the webhook writes no limit, and keeps the agent's paths free."""

import pytest

from tests.webhook.support import container, decide, pod, policies, reviewed

BY_AGENT = policies("limits: {from: agent}")
OTHER_UID = "6f7a1f0e-0000-4000-8000-000000000002"
MIB = "clearml-injector/memory-mib"


def test_the_pod_gets_its_slices_and_neither_limit_nor_limiter():
    decided = decide(pod(), policy_set=BY_AGENT)
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu-0": "4"}
    assert MIB not in decided.annotations
    assert decided.annotations["clearml-injector/slices"] == "4"
    assert not {"volumes", "initContainers"} & set(decided.spec)
    assert not {"env", "volumeMounts"} & set(decided.container())


def test_the_pod_is_bound_to_no_memory_because_the_agent_limits_it_by_the_card_it_gets():
    affinity = decide(pod(), policy_set=BY_AGENT).spec["affinity"]["nodeAffinity"]
    assert list(affinity) == ["preferredDuringSchedulingIgnoredDuringExecution"]


def test_users_copies_of_the_limiters_variables_are_removed_all_the_same():
    env = [{"name": name, "value": "1"} for name in ("CUDA_DISABLE_CONTROL", "MINE", "CUDA_REDIRECT")]
    decided = decide(pod(containers=[container(env=env)]), policy_set=BY_AGENT)
    assert decided.container()["env"] == [{"name": "MINE", "value": "1"}]


def test_variables_of_the_policy_are_written():
    under = policies("limits: {from: agent}\nenv: {SHARE: '{percent}'}")
    assert decide(pod(), policy_set=under).container()["env"] == [{"name": "SHARE", "value": "50"}]


@pytest.mark.parametrize(
    "path", ["/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu-cache", "/etc/ld.so.preload", "/overrideEnv"]
)
def test_a_mount_where_the_agent_puts_its_own_is_denied(path):
    mounts = [{"name": "mine", "mountPath": path}]
    found = pod(containers=[container(volumeMounts=mounts)], volumes=[{"name": "mine", "emptyDir": {}}])
    assert decide(found, policy_set=BY_AGENT).code == "mount-path"


def test_a_pod_keeps_its_gpu_when_it_is_reviewed_again():
    webhook, stored = reviewed(policy_set=BY_AGENT)
    assert webhook.decide(stored, uid=OTHER_UID).patch == []


def test_a_pod_that_claims_mib_was_not_injected_by_us():
    webhook, stored = reviewed(policy_set=BY_AGENT)
    stored["metadata"]["annotations"][MIB] = "40960"
    assert webhook.decide(stored, uid=OTHER_UID).code == "gpu-index-set"


def test_a_preload_from_a_reference_is_the_users_own():
    source = {"configMapKeyRef": {"name": "settings", "key": "preload"}}
    found = pod(containers=[container(env=[{"name": "LD_PRELOAD", "valueFrom": source}])])
    assert decide(found, policy_set=BY_AGENT).code == "injected"


def test_whole_gpus_are_as_under_admission():
    text = 'fractions: {"1.000": 8}'
    by_agent, by_admission = (
        [one for one in decide(pod(fraction="1.000"), policies(keys)).patch if "@" not in str(one)]
        for keys in (f"limits: {{from: agent}}\n{text}", text)
    )
    assert by_agent == by_admission
    assert by_agent
