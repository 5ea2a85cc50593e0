"""Policy key limits.from: under `agent` the webhook writes no limit, and keeps the agent's paths free."""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.support import container, decide, pod, policies, reviewed
from tests.webhook.support.gpu_pods import (
    asking_memory,
    bound_to,
    limits,
    pooled_node,
    sharing,
    slices_of,
    webhook_of,
)

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


def by_agent_on(*mibs, keys=""):
    """A webhook whose nodes have cards of these MiB, and whose agents limit."""
    facts = [gpu_node(str(mib), mib=mib, agent="serving") for mib in mibs]
    return webhook_of(*facts, policy_set=policies(f"limits: {{from: agent}}\n{keys}"))


@pytest.mark.parametrize(("mib", "slices"), [(24564, 2), (40960, 1), (81920, 1), (4096, 8)])
def test_memory_is_the_fewest_slices_that_hold_it_and_no_mib_are_written(mib, slices):
    decided = by_agent_on(mib).decide(asking_memory("4Gi"))
    assert slices_of(decided) == slices
    assert decided.annotations["clearml-injector/slices"] == str(slices)
    assert MIB not in decided.annotations
    assert not {"volumes", "initContainers"} & set(decided.spec)
    assert "env" not in decided.container()


def test_memory_binds_the_pod_to_cards_on_which_its_slices_hold_it():
    decided = by_agent_on(81559, 40960, 24576).decide(asking_memory("10Gi"))
    assert (slices_of(decided), bound_to(decided)) == (2, [40960, 81559])


def test_memory_in_a_pool_is_bound_likewise():
    facts = [pooled_node(str(mib), mib=mib, agent="serving") for mib in (24576, 81920)]
    under = policies("limits: {from: agent}\nresources: {mode: pooled}")
    decided = webhook_of(*facts, policy_set=under).decide(asking_memory("12Gi"))
    assert (limits(decided), bound_to(decided)) == ({"nvidia.com/gpu": "4"}, [24576])


def test_the_reserve_is_held_in_addition_to_the_memory_since_the_agent_takes_it_off_the_slices():
    decided = by_agent_on(40960, keys="memory: {reserveMiB: 100}").decide(asking_memory("5Gi"))
    assert slices_of(decided) == 2


def test_containers_that_share_memory_get_slices_that_hold_each_its_own():
    decided = by_agent_on(24576).decide(sharing("train=4Gi,eval=2Gi", "6Gi"))
    assert limits(decided, "train") == {"nvidia.com/gpu-0": "2"}
    assert limits(decided, "eval") == {"nvidia.com/gpu-0": "1"}
    assert (bound_to(decided), MIB in decided.annotations) == ([24576], False)


@pytest.mark.parametrize(("said", "values"), [("1", ["24576"]), ("2", ["81920"]), ("2", ["24576", "81920"])])
def test_slices_that_do_not_hold_the_memory_on_the_cards_demanded_are_not_ours(said, values):
    webhook = by_agent_on(24576, 81920)
    stored = webhook.decide(asking_memory("4Gi")).stored
    stored["metadata"]["annotations"]["clearml-injector/slices"] = said
    for amounts in stored["spec"]["containers"][0]["resources"].values():
        amounts["nvidia.com/gpu-0"] = said
    required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = values
    assert webhook.decide(stored, uid=OTHER_UID).code == "gpu-index-set"


def test_memory_is_assumed_of_nodes_that_do_not_exist_yet_and_found_again():
    webhook = webhook_of(
        policy_set=policies("limits: {from: agent}\nassume: {gpusPerNode: 2, gpuMemoryMiB: 24576}")
    )
    decided = webhook.decide(asking_memory("4Gi"))
    assert slices_of(decided) == 2


def test_memory_waits_for_an_agent_and_never_goes_to_a_node_without_one():
    facts = [gpu_node("bare", mib=24576, agent="missing")]
    decided = webhook_of(*facts, policy_set=BY_AGENT).decide(asking_memory("4Gi"))
    assert decided.code == "no-matching-node"
    assert "no node agent runs" in decided.message
