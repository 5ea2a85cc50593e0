"""The ledger of a webhook without a cluster: what is placed stays placed."""

from cli.options import read_ledger
from ledger.placement_request import Placement
from testbed.gpu_nodes import GpuNode
from tests.cli.running import as_yaml
from tests.ledger.cluster import eighths
from tests.webhook.support import container, default_policies, pod


def test_reservations_of_others_are_believed_as_nobody_tells_which_pods_came(tmp_path):
    node, holder = (
        GpuNode(gpus=2).manifest("a"),
        pod(containers=[container(limits={"nvidia.com/gpu-0": "8"})]),
    )
    holder["spec"]["nodeName"] = "a"
    file = tmp_path / "inventory.yaml"
    file.write_text(f"{as_yaml(node)}\n---\n{as_yaml(holder)}")
    ledger = read_ledger(default_policies(), file)
    first = ledger.place(eighths(8, namespace="one", reservation="r"), 0.0)
    second = ledger.place(eighths(8, namespace="other", reservation="s"), 0.0)
    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert (first.node, first.indices) == ("a", (1,))
    # Both indices are full, and the lowest of equals is taken.
    assert (second.node, second.indices) == (None, (0,))
