"""The ledger of a webhook without a cluster: what is placed stays placed."""

from cli.options import read_ledger
from ledger.placement_request import Placement
from tests.ledger.cluster import eighths
from tests.webhook.support import default_policies

INVENTORY = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {nvidia.com/gpu.memory: "81920"}}
status: {allocatable: {nvidia.com/gpu-0: "8", nvidia.com/gpu-1: "8", cpu: "64", memory: 256Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: holder, namespace: team}
spec:
  nodeName: a
  containers: [{name: main, image: i, resources: {requests: {nvidia.com/gpu-0: "8"}}}]
"""


def test_reservations_of_others_are_believed_as_nobody_tells_which_pods_came(tmp_path):
    file = tmp_path / "inventory.yaml"
    file.write_text(INVENTORY)
    ledger = read_ledger(default_policies(), file)
    first = ledger.place(eighths(8, namespace="one", reservation="r"), 0.0)
    second = ledger.place(eighths(8, namespace="other", reservation="s"), 0.0)
    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert (first.node, first.indices) == ("a", (1,))
    # Both indices are full, and the lowest of equals is taken.
    assert (second.node, second.indices) == (None, (0,))
