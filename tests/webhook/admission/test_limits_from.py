"""Policy key limits.from: under `agent` the webhook writes no limit, and keeps the agent's paths free."""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.support import container, decide, pod, policies, reviewed
from tests.webhook.support.gpu_pods import asking_memory, bound_to, slices_of, webhook_of

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


def by_agent_on(*mibs):
    """A webhook whose nodes have cards of these MiB, and whose agents limit."""
    return webhook_of(*[gpu_node(str(mib), mib=mib, agent="serving") for mib in mibs], policy_set=BY_AGENT)


def test_memory_binds_the_pod_to_cards_on_which_its_slices_hold_it():
    decided = by_agent_on(81559, 40960, 24576).decide(asking_memory("10Gi"))
    assert (slices_of(decided), bound_to(decided)) == (2, [40960, 81559])


@pytest.mark.parametrize(("said", "values"), [("1", ["24576"]), ("2", ["81920"]), ("2", ["24576", "81920"])])
def test_slices_that_do_not_hold_the_memory_on_the_cards_demanded_are_not_ours(said, values):
    webhook = by_agent_on(24576, 81920)
    stored = webhook.decide(asking_memory("4Gi")).stored
    stored["metadata"]["annotations"]["clearml-injector/slices"] = said
    for amounts in stored["spec"]["containers"][0]["resources"].values():
        amounts["nvidia.com/gpu-0"] = said
    required, *_ = stored["spec"]["affinity"]["nodeAffinity"].values()
    required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = values
    assert webhook.decide(stored, uid=OTHER_UID).code == "gpu-index-set"
