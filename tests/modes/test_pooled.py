import pytest

from modes.pooled import Pooled
from tests.modes.nodes import EMPTY, HALF, PAIR, POOL, SPLIT, UNLABELLED, per_gpu, pooled

NO_RESOURCE = "must be the name of an extended resource such as nvidia.com/gpu"


def test_all_slices_are_asked_for_under_one_name():
    assert pooled().amounts(HALF, ()) == {"nvidia.com/gpu": "4"}
    assert pooled("nvidia.com/gpu.shared").amounts(PAIR, ()) == {"nvidia.com/gpu.shared": "16"}


@pytest.mark.parametrize(
    ("node", "count", "slices"),
    [(POOL, (4, 8), 32), (UNLABELLED, (0, 32), 32), (SPLIT, None, 0), (EMPTY, None, 0)],
)
def test_only_the_pool_is_counted(node, count, slices):
    assert (Pooled.gpu_count(node), Pooled.slices(node)) == (count, slices)


@pytest.mark.parametrize(("fraction", "pods"), [(HALF, 8), (PAIR, 2)])
def test_pods_fit_as_long_as_slices_are_left(fraction, pods):
    assert Pooled.fit(POOL, fraction) == pods
    assert Pooled.fit(SPLIT, fraction) == 0


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ("nvidia.com/gpu", None),
        ("gpu", NO_RESOURCE),
        (
            "nvidia.com/gpu-{index}",
            f"{NO_RESOURCE}; {{index}} belongs to mode per-gpu",
        ),
        ("nvidia.com/gpu-0", "means something else, and pods that request it are denied: use another name"),
        ("amd.com/gpu", "means something else, and pods that request it are denied: use another name"),
    ],
)
def test_a_resource_name_has_no_index(resource, problem):
    assert Pooled.name_problem(resource) == problem


def test_the_policys_name_means_the_pool_and_names_of_single_gpus_an_index():
    kinds = pooled("example.com/slice").kinds
    assert kinds["example.com/slice"].is_pool
    assert kinds["nvidia.com/gpu-7"].is_index
    assert kinds["nvidia.com/gpu"].is_replaced


def test_modes_are_distinguished():
    assert pooled() == pooled()
    assert pooled("nvidia.com/gpu") != per_gpu("nvidia.com/gpu")


def test_an_annotation_names_no_gpu():
    assert Pooled.read_indices(None, HALF) == ()
    assert Pooled.read_indices("3", HALF) is None


def test_a_share_is_described_by_pool():
    assert pooled().share_text(PAIR) == "16 of 8 slices, nvidia.com/gpu: 16"
