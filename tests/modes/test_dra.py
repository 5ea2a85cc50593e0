"""Mode dra: a claim instead of amounts, of one of two drivers."""

from kube.dra import DRIVER
from modes.dra import ByClaim
from modes.resource_names import ResourceNames
from tests.ledger.cluster import gpu_node

MODE = ByClaim(DRIVER, ResourceNames(), frozenset())


def test_what_the_pod_requests_of_nvidia_is_replaced_and_single_gpus_are_denied():
    assert MODE.kinds["nvidia.com/gpu"].is_replaced
    assert MODE.kinds["clear.ml/fraction-1"].is_replaced
    assert MODE.kinds["nvidia.com/gpu-3"].is_index
    assert MODE.kinds["nvidia.com/mig-1g.5gb"].is_other_system


def test_no_resource_name_is_for_the_mode():
    assert ByClaim.name_problem(DRIVER) is None
    assert "pods get a claim" in ByClaim.name_problem("nvidia.com/gpu")


def test_the_ledger_counts_nothing_of_a_node():
    node = gpu_node("node", 2, 81920)
    assert ByClaim.gpu_count(node) is None
