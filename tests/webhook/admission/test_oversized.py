"""Whatever a pod of 3 MiB is made of: one clear answer of less than 1 MiB, after a bounded amount of work."""

import pytest

from bench.oversized import SIZE, shapes
from tests.webhook.support.bounded_work import check

pytestmark = pytest.mark.slow

AT_THE_BOUNDS = 60_000
"""Bytes of pods in which most bounds are just kept, so that the rules walk as much as they ever do."""
SHAPES = {shape.name: shape for shape in shapes()}


@pytest.mark.parametrize("name", SHAPES)
def test_a_pod_of_3_mib_gets_one_short_answer_after_a_bounded_amount_of_work(name):
    check(SHAPES[name].make(SIZE), reviews=1)


@pytest.mark.parametrize("name", SHAPES)
def test_so_does_a_pod_that_just_keeps_the_bounds_whether_its_form_is_known_or_not(name):
    check(SHAPES[name].make(AT_THE_BOUNDS), reviews=3)
