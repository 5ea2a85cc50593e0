"""Step "label" of the admission table: the exact text of the policy, or a denial that helps."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.webhook.support import LABEL, decide, default_policies, pod
from webhook.admission.denial import Denial
from webhook.admission.label import Asked, read_label

TABLE = {f"{Decimal(n) / 8:.3f}": n for n in range(1, 8)}
ALL = "use 0.125, 0.250, 0.375, 0.500, 0.625, 0.750, 0.875"


def policy():
    return default_policies().resolve("team", None, None)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("0.5", f'{ALL} (did you mean "0.500"?)'),
        ("0.9", ALL),
        ("", ALL),
        ("inf", ALL),
        (".5", f'{ALL} (did you mean "0.500"?)'),
        ("0.500 ", ALL),
        ("\u0660.\u0665\u0660\u0660", ALL),
        ("1.000", ALL),
        ("0", ALL),
    ],
)
def test_any_other_text_is_denied_with_what_is_allowed(text, advice):
    decided = decide(pod(fraction=text))
    assert (decided.allowed, decided.code) == (False, "label-not-allowed")
    assert decided.message == f'{LABEL} "{text}" is not allowed: {advice}'


NEAR = st.one_of(
    st.sampled_from(sorted(TABLE)),
    st.decimals(0, 2, allow_nan=False, places=3).map(str),
    st.text("0123456789.eE+-_ nNaAiIfF", max_size=10),
    st.text(max_size=63),
    st.floats().map(str),
)


@settings(max_examples=examples(by_turns("webhook", usual=200, full=10_000)))
@given(NEAR)
def test_of_all_texts_only_the_table_is_taken(text):
    read = read_label(Asked(text, None), policy())
    if text in TABLE:
        assert (read.slices, read.slices_per_gpu) == (TABLE[text], 8)
        return
    assert isinstance(read, Denial)
    assert len(read.message) <= 200
    assert read.message.isprintable()
    if "did you mean" in read.message:
        meant = read.message.split('did you mean "')[1][:5]
        assert Decimal(text) == Decimal(meant)
