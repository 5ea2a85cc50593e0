import pytest

from modes.per_gpu import PerGpu
from modes.resource_names import ResourceNames
from tests.modes.nodes import EMPTY, HALF, PAIR, POOL, SPLIT, per_gpu


def test_each_chosen_gpu_is_asked_for_by_its_own_name():
    assert per_gpu().amounts(HALF, (3,)) == {"nvidia.com/gpu-3": "4"}
    assert per_gpu("example.com/card-{index}").amounts(PAIR, (0, 2)) == {
        "example.com/card-0": "8",
        "example.com/card-2": "8",
    }


def test_no_share_is_written_without_the_index_of_a_gpu():
    with pytest.raises(ValueError, match="index"):
        per_gpu().amounts(HALF, ())


@pytest.mark.parametrize(
    ("node", "count", "slices"), [(SPLIT, (3, 8), 24), (POOL, None, 0), (EMPTY, None, 0)]
)
def test_only_gpus_with_a_name_of_their_own_are_counted(node, count, slices):
    assert (PerGpu.gpu_count(node), PerGpu.slices(node)) == (count, slices)


@pytest.mark.parametrize(("fraction", "pods"), [(HALF, 6), (PAIR, 1)])
def test_pods_fit_whole_gpus_or_slices_of_one(fraction, pods):
    assert PerGpu.fit(SPLIT, fraction) == pods
    assert PerGpu.fit(POOL, fraction) == 0


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ("nvidia.com/gpu-{index}", None),
        ("example.com/card-{index}", None),
        ("nvidia.com/gpu", "must end in {index} in mode per-gpu"),
        ("nvidia.com/{index}-gpu", "must end in {index} in mode per-gpu"),
        ("{index}/gpu-{index}", "must end in {index} in mode per-gpu"),
        ("gpu-{index}", "must be the name of an extended resource such as nvidia.com/gpu"),
        ("kubernetes.io/gpu-{index}", "must be the name of an extended resource such as nvidia.com/gpu"),
        (
            "nvidia.com/mig-{index}",
            "means something else, and pods that request it are denied: use another name",
        ),
        (
            "nvidia.com/gpu-1{index}",
            "means something else, and pods that request it are denied: use another name",
        ),
    ],
)
def test_a_resource_name_ends_in_the_index(resource, problem):
    assert PerGpu.name_problem(resource) == problem


def test_own_and_standard_names_of_single_gpus_mean_an_index():
    kinds = per_gpu("example.com/card-{index}").kinds
    for name in ("example.com/card-12", "nvidia.com/gpu-0"):
        assert kinds[name].is_index
    assert not kinds["nvidia.com/gpu"].is_index
    assert kinds["example.com/card-x"] is None


def test_names_of_other_policies_are_another_systems():
    counted = ResourceNames(pooled=("nvidia.com/gpu", "example.com/slice"))
    assert per_gpu(counted=counted).kinds["example.com/slice"].is_other_system
    assert per_gpu().kinds["example.com/slice"] is None


def test_modes_of_equal_words_are_equal():
    assert per_gpu() == per_gpu()
    assert per_gpu() != per_gpu("example.com/card-{index}")


@pytest.mark.parametrize(
    ("text", "fraction", "indices"),
    [
        ("3", HALF, (3,)),
        ("0,2", PAIR, (0, 2)),
        ("2,0", PAIR, None),
        ("0,0", PAIR, None),
        ("0", PAIR, None),
        ("03", HALF, None),
        ("0,2", HALF, None),
        ("", HALF, None),
        (None, HALF, None),
    ],
)
def test_an_annotation_names_each_gpu_once_in_order(text, fraction, indices):
    assert PerGpu.read_indices(text, fraction) == indices


def test_a_share_is_described_by_gpu():
    assert per_gpu().share_text(HALF) == "4 of 8 slices, nvidia.com/gpu-<i>: 4"
    assert per_gpu().share_text(PAIR) == "16 slices: 8 of each of 2 nvidia.com/gpu-<i>"
