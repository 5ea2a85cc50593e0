"""Modes of slices: what a pod requests, what of a node is counted, and which names a policy may use."""

import pytest

from modes.per_gpu import PerGpu
from modes.pooled import Pooled
from modes.resource_names import ResourceNames
from tests.modes.nodes import EMPTY, HALF, PAIR, POOL, SPLIT, UNLABELLED, per_gpu, pooled

NO_RESOURCE = "must be the name of an extended resource such as nvidia.com/gpu"
NO_INDEX = "must end in {index} in mode per-gpu"
TAKEN = "means something else, and pods that request it are denied: use another name"
CARD = "example.com/card-{index}"


@pytest.mark.parametrize(
    ("mode", "fraction", "indices", "amounts"),
    [
        (per_gpu(), HALF, (3,), {"nvidia.com/gpu-3": "4"}),
        (per_gpu(CARD), PAIR, (0, 2), {"example.com/card-0": "8", "example.com/card-2": "8"}),
        (pooled(), HALF, (), {"nvidia.com/gpu": "4"}),
        (pooled("nvidia.com/gpu.shared"), PAIR, (), {"nvidia.com/gpu.shared": "16"}),
    ],
)
def test_slices_are_asked_for_by_the_name_of_each_gpu_or_of_the_pool(mode, fraction, indices, amounts):
    assert mode.amounts(fraction, indices) == amounts


def test_no_share_is_written_without_the_index_of_a_gpu():
    with pytest.raises(ValueError, match="index"):
        per_gpu().amounts(HALF, ())


@pytest.mark.parametrize(
    ("mode", "node", "offered"),
    [
        (PerGpu, SPLIT, (3, 8)),
        (PerGpu, POOL, None),
        (PerGpu, EMPTY, None),
        (Pooled, POOL, (4, 8)),
        (Pooled, UNLABELLED, (0, 32)),
        (Pooled, SPLIT, None),
        (Pooled, EMPTY, None),
    ],
)
def test_only_what_has_the_modes_names_is_counted(mode, node, offered):
    assert mode.gpu_count(node) == offered


@pytest.mark.parametrize(
    ("mode", "resource", "problem"),
    [
        (PerGpu, "nvidia.com/gpu-{index}", None),
        (PerGpu, CARD, None),
        (PerGpu, "nvidia.com/gpu", NO_INDEX),
        (PerGpu, "nvidia.com/{index}-gpu", NO_INDEX),
        (PerGpu, "{index}/gpu-{index}", NO_INDEX),
        (PerGpu, "gpu-{index}", NO_RESOURCE),
        (PerGpu, "kubernetes.io/gpu-{index}", NO_RESOURCE),
        (PerGpu, "nvidia.com/mig-{index}", TAKEN),
        (PerGpu, "nvidia.com/gpu-1{index}", TAKEN),
        (Pooled, "nvidia.com/gpu", None),
        (Pooled, "gpu", NO_RESOURCE),
        (Pooled, "nvidia.com/gpu-{index}", f"{NO_RESOURCE}; {{index}} belongs to mode per-gpu"),
        (Pooled, "nvidia.com/gpu-0", TAKEN),
        (Pooled, "amd.com/gpu", TAKEN),
    ],
)
def test_a_policy_may_use_some_names_and_is_told_why_not_others(mode, resource, problem):
    assert mode.name_problem(resource) == problem


def test_names_of_single_gpus_of_pools_and_of_other_policies_are_told_apart():
    counted = ResourceNames(pooled=("nvidia.com/gpu", "example.com/slice"))
    by_card, by_pool = per_gpu(CARD).kinds, pooled("example.com/slice").kinds
    assert all(by_card[name].is_index for name in ("example.com/card-12", "nvidia.com/gpu-0"))
    assert by_card["example.com/card-x"] is None
    assert by_pool["example.com/slice"].is_pool
    assert by_pool["nvidia.com/gpu-7"].is_index
    assert by_pool["nvidia.com/gpu"].is_replaced
    assert per_gpu(counted=counted).kinds["example.com/slice"].is_other_system
    assert per_gpu().kinds["example.com/slice"] is None


@pytest.mark.parametrize(
    ("mode", "text", "fraction", "indices"),
    [
        (PerGpu, "3", HALF, (3,)),
        (PerGpu, "0,2", PAIR, (0, 2)),
        *[(PerGpu, text, PAIR, None) for text in ("2,0", "0,0", "0")],
        *[(PerGpu, text, HALF, None) for text in ("03", "0,2", "", None)],
        (Pooled, None, HALF, ()),
        (Pooled, "3", HALF, None),
    ],
)
def test_an_annotation_names_each_gpu_once_in_order(mode, text, fraction, indices):
    assert mode.read_indices(text, fraction) == indices
