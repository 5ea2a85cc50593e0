import pytest

from tests.modes.nodes import per_gpu, pooled


@pytest.mark.parametrize("mode", [per_gpu(), pooled()], ids=["per-gpu", "pooled"])
@pytest.mark.parametrize(
    ("resource", "says"),
    [
        ("cpu", None),
        ("memory", None),
        ("ephemeral-storage", None),
        ("example.com/licence", None),
        ("nvidia.com/hostdev", None),
        ("nvidia.com/gpu", {"is_whole", "is_replaced", "asks"}),
        ("nvidia.com/gpu.shared", {"is_whole", "is_replaced", "asks"}),
        ("clear.ml/fraction-1", {"is_clearml", "is_replaced", "asks"}),
        ("nvidia.com/gpu-3", {"is_index", "asks"}),
        ("nvidia.com/mig-1g.5gb", {"is_other_system"}),
        ("amd.com/gpu", {"is_other_system"}),
        ("nvidia.com/something", {"is_other_system", "can_be_allowed"}),
    ],
)
def test_a_resource_name_says_how_a_gpu_is_asked_for(mode, resource, says):
    kind = type(mode)(mode.resource, mode.counted, frozenset({"nvidia.com/hostdev"})).kinds[resource]
    found = kind and {name for name in kind.__struct_fields__ if getattr(kind, name)} - {"is_pool"}
    assert found == says
