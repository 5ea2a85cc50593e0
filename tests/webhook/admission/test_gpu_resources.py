"""The user's ways to ask for a GPU agree with the label, and ours takes their place."""

import pytest

from tests.webhook.support import decide, pod, policies

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


@pytest.mark.parametrize(
    ("resource", "amount", "advice"),
    [
        *(
            ("nvidia.com/gpu", amount, "remove it or use 1 or 4")
            for amount in ("2", "8", 3, "500m", "-1", "1.5", "nan", "", "1e400", "1_0")
        ),
        *(
            ("clear.ml/fraction-1", amount, "remove it, or use the value of the label")
            for amount in ("250m", "1", 1, "0", "x", "1e400")
        ),
    ],
)
@pytest.mark.parametrize("field", ["limits", "requests"])
def test_other_amounts_are_denied_with_both_values(resource, amount, advice, field):
    asks = {"limits": {}, "requests": {}, field: {resource: amount}}
    decided = resources_of(asks["limits"], asks["requests"])
    assert decided.code == "gpu-amount"
    said = 'does not match clearml-injector/fraction "0.500"'
    assert decided.message == f"{resource}: {amount} {said}: {advice}"


@pytest.mark.parametrize("amount", ["500m", "0.5", "0.500", "500000u", "5e-1"])
@pytest.mark.parametrize("suffix", ["1", "2", "a/b~c"])
def test_a_fraction_resource_equal_to_the_label_leaves_limits_and_requests(amount, suffix):
    resource = f"clear.ml/fraction-{suffix}"
    decided = resources_of({resource: amount}, {resource: amount})
    ours = {"nvidia.com/gpu-0": "4"}
    assert decided.container()["resources"] == {"limits": ours, "requests": ours}


@pytest.mark.parametrize("amount", ["1", "2", "16", None])
def test_whole_gpus_take_one_n_or_eight_n(amount):
    limits = {} if amount is None else {"nvidia.com/gpu": amount}
    decided = resources_of(limits, limits, "2", policies(WHOLE))
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu-0": "8", "nvidia.com/gpu-1": "8"}
    assert decided.annotations["clearml-injector/gpu-index"] == "0,1"
    assert "clearml-injector/memory-mib" not in decided.annotations
