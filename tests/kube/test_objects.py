"""Which node a pod's affinity says that a placement preferred."""

import msgspec
import pytest

from kube.objects import NodeAffinity, preferred_node


def preference(weight, key="metadata.name", values=("n",)):
    field = {"key": key, "operator": "In", "values": list(values)}
    return {"weight": weight, "preference": {"matchFields": [field]}}


@pytest.mark.parametrize(
    ("preferences", "expected"),
    [
        ([preference(100)], "n"),
        ([preference(1, values=["other"]), preference(100)], "n"),
        ([preference(99)], None),
        ([preference(100, values=[])], None),
        ([preference(100, key="metadata.namespace")], None),
        ([{"weight": 100, "preference": {"matchExpressions": []}}], None),
        ([], None),
    ],
)
def test_the_preferred_node(preferences, expected):
    found = {"preferredDuringSchedulingIgnoredDuringExecution": preferences}
    assert preferred_node(msgspec.convert(found, NodeAffinity)) == expected
