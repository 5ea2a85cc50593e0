"""Variables of limiters and policies, with every placeholder filled in."""

from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import container, decide, pod, policies
from tests.webhook.support.gpu_pods import limits, memory_limits, on_gpus, webhook_of


def env_after(*pairs, policy_set):
    entries = [{"name": name, "value": value} for name, value in pairs]
    return decide(pod(containers=[container(env=entries)]), policy_set).env()


def test_the_policys_variables_are_filled_and_replace_the_pods():
    policy_set = policies("limiter: none\nenv: {SHARE: '{slices}/{slices_per_gpu} {percent} {namespace}'}")
    assert env_after(("SHARE", "x"), ("A", "1"), policy_set=policy_set) == [
        ("A", "1"),
        ("SHARE", "4/8 50 team"),
    ]


def test_the_nvidia_driver_limiter_sets_the_limit_and_requests_nothing():
    assert env_after(policy_set=policies("limiter: nvidia-driver")) == [
        ("NVIDIA_GPU_MEMORY_REQUEST", "0"),
        ("NVIDIA_GPU_MEMORY_LIMIT", "11514"),
    ]


def test_limits_are_numbered_as_the_container_counts_its_gpus_and_not_as_the_node_does():
    full = holder("other", "a", (0, 8), (2, 5))
    decided = webhook_of(gpu_node("a", 5), holders=[full]).decide(on_gpus("3"))
    assert list(limits(decided)) == ["nvidia.com/gpu-1", "nvidia.com/gpu-3", "nvidia.com/gpu-4"]
    assert sorted(memory_limits(decided)) == [f"CUDA_DEVICE_MEMORY_LIMIT_{number}" for number in range(3)]
