"""Whatever a pod of 512 KiB is made of: one clear answer of less than 1 MiB, after bounded work."""

import pytest

from testbed.oversized import SIZE
from tests.webhook.admission.test_oversized import SHAPES
from tests.webhook.support.bounded_work import check


@pytest.mark.parametrize("name", SHAPES)
def test_a_pod_of_512_kib_gets_one_short_answer_after_a_bounded_amount_of_work(name):
    check(SHAPES[name].make(SIZE))
