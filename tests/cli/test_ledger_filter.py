"""What of the ledger is shown to who asks for a part of it."""

import pytest

from cli.ledger_filter import Filter
from tests.cli.ledger_views import SOME


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Filter(), [("gpu-0", 0), ("gpu-0", 1), ("gpu-0", None), ("cpu-7", 0)]),
        (Filter(node="gpu-*"), [("gpu-0", 0), ("gpu-0", 1), ("gpu-0", None)]),
        (Filter(namespace="team"), [("gpu-0", 0)]),
        (Filter(queue="Q_1"), [("gpu-0", 0)]),
        (Filter(queue="other"), []),
        (Filter(free=4), [("cpu-7", 0)]),
        (Filter(free=1, node="gpu-?"), []),
    ],
)
def test_filters_leave_whole_gpus(asked, expected):
    found = asked.apply(SOME)
    assert [(each.name, gpu.index) for each in found.nodes for gpu in each.gpus] == expected
    assert bool(found.backlog) is (asked in {Filter(), Filter(namespace="team")})
