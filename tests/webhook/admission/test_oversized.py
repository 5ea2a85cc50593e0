"""Whatever a large pod is made of: one clear answer of less than 1 MiB, after a bounded amount of work."""

import pytest

from testbed.oversized import SIZE, shapes
from tests.effort import by_turns
from tests.webhook.support.bounded_work import check

AT_THE_BOUNDS = 60_000
"""Bytes of pods in which most bounds are just kept, so that the rules walk as much as they ever do."""
SHAPES = {shape.name: shape for shape in shapes()}
ONE_OF_EACH_GROUP = {shape.group: shape.name for shape in SHAPES.values()}


@pytest.mark.parametrize("name", ONE_OF_EACH_GROUP.values())
def test_a_pod_of_512_kib_gets_one_short_answer_after_a_bounded_amount_of_work(name):
    check(SHAPES[name].make(SIZE))


@pytest.mark.parametrize("name", list(SHAPES)[:: by_turns("webhook", usual=3, full=1)])
def test_so_does_a_pod_that_just_keeps_the_bounds(name):
    check(SHAPES[name].make(AT_THE_BOUNDS))
