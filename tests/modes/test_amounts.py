import pytest

from modes.amounts import choices, fits
from modes.fraction import Fraction
from tests.modes.nodes import HALF, PAIR, per_gpu, pooled

WHOLE, CLEARML = (per_gpu().kinds[name] for name in ("nvidia.com/gpu", "clear.ml/fraction-1"))
POOL = pooled("example.com/slice").kinds["example.com/slice"]
INDEX = per_gpu().kinds["nvidia.com/gpu-0"]


@pytest.mark.parametrize("kind", [WHOLE, POOL], ids=["whole", "pool"])
@pytest.mark.parametrize(
    ("fraction", "agree", "differ"),
    [
        (HALF, ["0", 0, "1", 1, "4", "4000m"], ["2", "8", "500m", "half", "-1", ""]),
        (PAIR, ["0", "1", "2", "16", "2e0"], ["3", "8", "15"]),
    ],
)
def test_counts_may_be_one_the_gpus_or_the_slices(kind, fraction, agree, differ):
    assert all(fits(amount, kind, fraction) for amount in agree)
    assert not any(fits(amount, kind, fraction) for amount in differ)


def test_a_fraction_of_clearml_is_the_labels_own():
    assert all(fits(amount, CLEARML, HALF) for amount in ("0.5", "500m", "5e-1"))
    assert not any(fits(amount, CLEARML, HALF) for amount in ("0", "1", "4", "0.25", "half"))
    assert fits("2", CLEARML, PAIR)


def test_other_kinds_are_no_matter_of_amounts():
    assert fits("7", INDEX, HALF)


@pytest.mark.parametrize(
    ("fraction", "text"), [(HALF, "1 or 4"), (PAIR, "1 or 2 or 16"), (Fraction(1, 8), "1")]
)
def test_choices_are_named_once_each(fraction, text):
    assert choices(fraction) == text
