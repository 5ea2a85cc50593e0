import pytest

from modes.fraction import Fraction
from tests.modes.nodes import HALF, PAIR, per_gpu, pooled


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


WHOLE, CLEARML, INDEX = (
    per_gpu().kinds[name] for name in ("nvidia.com/gpu", "clear.ml/fraction-1", "nvidia.com/gpu-0")
)
POOL = pooled("example.com/slice").kinds["example.com/slice"]


@pytest.mark.parametrize(
    ("kind", "fraction", "agree", "differ"),
    [
        *[
            case
            for kind in (WHOLE, POOL)
            for case in (
                (kind, HALF, ["0", 0, "1", 1, "4", "4000m"], ["2", "8", "500m", "half", "-1", ""]),
                (kind, PAIR, ["0", "1", "2", "16", "2e0"], ["3", "8", "15"]),
            )
        ],
        (CLEARML, HALF, ["0.5", "500m", "5e-1"], ["0", "1", "4", "0.25", "half"]),
        (CLEARML, PAIR, ["2"], ["1", "16"]),
        (CLEARML, Fraction(4, 8, parts=2), ["0.25"], ["0.5"]),
        (CLEARML, Fraction.rounded_up("0.2", 8), ["0.2"], ["0.25"]),
        (CLEARML, Fraction.of_memory(4096, 8), [], ["0.125", "1"]),
        (INDEX, HALF, ["7"], []),
    ],
)
def test_amounts_agree_with_the_label_or_not(kind, fraction, agree, differ):
    assert all(kind.agrees(amount, fraction) for amount in agree)
    assert not any(kind.agrees(amount, fraction) for amount in differ)
