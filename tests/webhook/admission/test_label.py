"""Step "label" of the admission table: the exact text of the policy, or a denial that helps."""

import pytest

from tests.webhook.support import LABEL, decide, pod

ALL = "use 0.125, 0.250, 0.375, 0.500, 0.625, 0.750, 0.875"


MEANT = f'{ALL} (did you mean "0.500"?)'


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        *(("0.5", MEANT), (".5", MEANT)),
        *((text, ALL) for text in ("0.9", "", "inf", "0.500 ", "\u0660.\u0665\u0660\u0660", "1.000", "0")),
    ],
)
def test_any_other_text_is_denied_with_what_is_allowed(text, advice):
    decided = decide(pod(fraction=text))
    assert (decided.allowed, decided.code) == (False, "label-not-allowed")
    assert decided.message == f'{LABEL} "{text}" is not allowed: {advice}'
