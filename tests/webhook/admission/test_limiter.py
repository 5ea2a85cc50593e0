"""What a limiter puts into the pod: volumes, mounts and an init container."""

from tests.webhook.support import LABEL, LIBRARY, container, decide, pod, policies, reviewed


def test_without_a_limiter_nothing_is_mounted_and_nothing_refused():
    found = pod(containers=[container(volumeMounts=[{"name": "data", "mountPath": LIBRARY}])])
    decided = decide(found, policies("limiter: none"))
    assert "initContainers" not in decided.spec
    assert len(decided.container()["volumeMounts"]) == 1


def test_the_init_container_requests_little_and_never_more_than_the_gpu_container():
    """With the amounts of the GPU container, the pod would keep them when those are reduced."""
    amounts = {"limits": {"cpu": "16", "memory": "64Gi"}, "requests": {"cpu": "50m", "memory": "32Gi"}}
    decided = decide(pod(containers=[container(resources=amounts)]))
    limits, requests = {"cpu": "100m", "memory": "128Mi"}, {"cpu": "50m", "memory": "128Mi"}
    assert decided.container("gpu-limiter")["resources"] == {"limits": limits, "requests": requests}


def test_pull_secrets_of_the_limiter_are_added_to_those_of_the_pod():
    mirror = "{image: 'registry.example.com/hamicore:v2', imagePullSecrets: [own, mirror]}"
    set_ = policies(mirror=f"kind: Limiter\nname: hami-core\nextends: hami-core\ninitContainer: {mirror}\n")
    for known, found in (([], ["own", "mirror"]), (["own"], ["own", "mirror"])):
        decided = decide(pod(imagePullSecrets=[{"name": name} for name in known]), set_)
        assert decided.spec["imagePullSecrets"] == [{"name": name} for name in found]


def test_an_edited_copy_of_an_admitted_pod_is_denied_in_one_line():
    webhook, stored = reviewed()
    del stored["metadata"]["annotations"]
    stored["metadata"]["labels"][LABEL] = "0.250"
    decided = webhook.decide(stored)
    assert decided.code == "mount-path"
    assert decided.message == (
        "the pod is an edited copy of an admitted one: leave out its GPU amounts, the affinity to"
        " nvidia.com/gpu.memory, and containers, volumes and mounts gpu-limiter*"
    )
