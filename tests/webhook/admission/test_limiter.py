"""Steps "limits" and "other systems": what a pod may ask beside the label, and what replaces it."""

import pytest

from tests.webhook.support import container, decide, pod, policies

WHOLE = 'fractions: {"0.500": 4, "1.000": 8, "2": 16}\nassume: {gpusPerNode: 8, gpuMemoryMiB: 81920}'


def resources_of(limits, requests, fraction="0.500", policy_set=None):
    found = pod(fraction=fraction)
    found["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": requests}
    return decide(found, policy_set)


@pytest.mark.parametrize("amount", ["1", "4", 1, 4, "4.0", "4000m", "0", "1e0"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_one_gpu_or_the_slices_are_replaced(resource, amount):
    decided = resources_of({resource: amount, "cpu": "2"}, {resource: amount, "cpu": "1"})
    assert decided.container()["resources"] == {
        "limits": {"cpu": "2", "nvidia.com/gpu-0": "4"},
        "requests": {"cpu": "1", "nvidia.com/gpu-0": "4"},
    }


@pytest.mark.parametrize("amount", ["2", "8", 3, "500m", "-1", "1.5", "nan", "", "1e400", "1_0"])
def test_other_amounts_are_denied_with_both_values(amount):
    decided = resources_of({"nvidia.com/gpu": amount}, {})
    assert decided.code == "gpu-amount"
    assert decided.message == (
        f'nvidia.com/gpu: {amount} does not fit clearml-injector/fraction "0.500": leave it out or use 1 or 4'
    )


@pytest.mark.parametrize("amount", ["500m", "0.5", "0.500", "500000u", "5e-1"])
@pytest.mark.parametrize("suffix", ["1", "2", "a/b~c"])
def test_a_fraction_resource_equal_to_the_label_leaves_limits_and_requests(amount, suffix):
    resource = f"clear.ml/fraction-{suffix}"
    decided = resources_of({resource: amount}, {resource: amount})
    assert decided.container()["resources"] == {
        "limits": {"nvidia.com/gpu-0": "4"},
        "requests": {"nvidia.com/gpu-0": "4"},
    }


@pytest.mark.parametrize("amount", ["250m", "1", 1, "0", "x", "1e400"])
def test_a_fraction_resource_that_differs_is_denied_with_both_values(amount):
    decided = resources_of({"clear.ml/fraction-1": amount}, {})
    assert decided.code == "gpu-amount"
    assert decided.message == (
        f'clear.ml/fraction-1: {amount} does not fit clearml-injector/fraction "0.500": leave it out,'
        " or write what the label says"
    )


def test_requests_alone_are_checked_too():
    assert resources_of({}, {"nvidia.com/gpu": "2"}).code == "gpu-amount"


@pytest.mark.parametrize("resources", [None, {}, {"limits": None}, {"limits": {}, "requests": None}])
def test_missing_null_and_empty_resources_are_made(resources):
    found = pod()
    found["spec"]["containers"][0]["resources"] = resources
    ours = {"nvidia.com/gpu-0": "4"}
    assert decide(found).container()["resources"] == {"limits": ours, "requests": ours}


@pytest.mark.parametrize("amount", ["1", "2", "16", None])
def test_whole_gpus_take_one_n_or_eight_n(amount):
    limits = {} if amount is None else {"nvidia.com/gpu": amount}
    decided = resources_of(limits, limits, "2", policies(WHOLE))
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu-0": "8", "nvidia.com/gpu-1": "8"}
    assert decided.annotations["clearml-injector/gpu-index"] == "0,1"
    assert "clearml-injector/memory-mib" not in decided.annotations


def test_whole_gpus_get_no_limiter():
    decided = decide(pod(fraction="1.000"), policies(WHOLE))
    assert decided.env() == []
    assert "volumes" not in decided.spec
    assert "initContainers" not in decided.spec


def test_whole_gpus_in_another_number_are_denied():
    decided = resources_of({"nvidia.com/gpu": "8"}, {}, "2", policies(WHOLE))
    assert decided.message == (
        'nvidia.com/gpu: 8 does not fit clearml-injector/fraction "2": leave it out or use 1 or 2 or 16'
    )


@pytest.mark.parametrize("field", ["limits", "requests"])
@pytest.mark.parametrize("name", ["train", "side"])
def test_a_gpu_index_brought_by_the_pod_is_denied(field, name):
    found = pod(containers=[container("train"), container("side")], metadata={"name": "train"})
    chosen = 0 if name == "train" else 1
    found["spec"]["containers"][chosen]["resources"] = {field: {"nvidia.com/gpu-3": "4"}}
    found["metadata"]["annotations"] = {"clearml-injector/container": name}
    decided = decide(found)
    assert decided.code == "gpu-index-set"
    assert decided.message == (
        f'container "{name}" asks for nvidia.com/gpu-3: leave it out,'
        " the GPU of a pod labelled clearml-injector/fraction is chosen for it"
    )


def test_the_standard_index_is_denied_also_where_the_policy_goes_by_another_name():
    found = pod(containers=[container(limits={"nvidia.com/gpu-3": "4"})])
    own_name = policies('resources: {mode: per-gpu, name: "example.com/gpu-{index}"}')
    assert decide(found, own_name).code == "gpu-index-set"


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
        "volcano.sh/vgpu-number",
        "aliyun.com/gpu-mem",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "habana.ai/gaudi",
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_requests_of_other_systems_are_denied_wherever_they_stand(resource, init):
    side = container("side", limits={resource: "1"})
    found = pod(initContainers=[side]) if init else pod(containers=[container("task"), side])
    decided = decide(found)
    assert decided.code == "other-gpu-system"
    assert decided.message == (
        f"{resource} cannot stand beside clearml-injector/fraction:"
        " one pod, one way to share a GPU; remove one of the two"
    )


@pytest.mark.parametrize("annotation", ["gpu-fraction", "gpu-memory"])
def test_annotations_of_other_systems_are_denied(annotation):
    decided = decide(pod(metadata={"annotations": {annotation: "0.5"}}))
    assert decided.code == "other-gpu-system"
    assert decided.message.startswith(f"annotation {annotation} cannot stand beside")


def test_resource_claims_are_denied():
    decided = decide(pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]))
    assert decided.code == "other-gpu-system"


def test_a_policy_of_its_own_resource_name_uses_it():
    decided = decide(
        pod(),
        policies(
            "resources: {name: 'example.com/share-{index}'}\nassume: {gpusPerNode: 1, gpuMemoryMiB: 81920}"
        ),
    )
    assert decided.container()["resources"]["limits"] == {"example.com/share-0": "4"}
