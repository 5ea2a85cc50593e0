"""What the pod itself gets in addition to its limiter and its affinity."""

from tests.webhook.support import decide, pod, policies


def test_runtime_class_and_tolerations_are_added_where_missing():
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    policy_set = policies(f"runtimeClassName: nvidia\ntolerations: [{toleration}]".replace("'", '"'))
    decided = decide(pod(), policy_set)
    assert (decided.spec["runtimeClassName"], decided.spec["tolerations"]) == ("nvidia", [toleration])
    own = {"key": "x", "operator": "Exists"}
    decided = decide(pod(runtimeClassName="kata", tolerations=[own, toleration]), policy_set)
    assert (decided.spec["runtimeClassName"], decided.spec["tolerations"]) == ("kata", [own, toleration])
    decided = decide(pod(tolerations=[own]), policy_set)
    assert decided.spec["tolerations"] == [own, toleration]
