"""The doctor on what nodes lack, and on what the controller publishes."""

import pytest

from doctor.seen import StoredPolicies
from tests.doctor.support import conditions, lines, node, says


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (node(gpu_mib=None), "the node label nvidia.com/gpu.memory is missing or not a number of MiB"),
        (node(gpus=(), slices_per_gpu=0, pooled=2, pooled_gpus=2), "GPUs are offered whole"),
    ],
)
def test_what_a_node_lacks_is_said_with_what_to_do(found, what):
    [(level, text)] = lines("fractions", nodes=(found,))
    assert level == "failed"
    assert text.startswith(f"node gpu-1: {what} -- ")


@pytest.mark.parametrize(("writes_limits", "level"), [(True, "failed"), (False, "warning")])
def test_where_an_agent_reports_the_memory_the_label_is_given_without_feature_discovery(writes_limits, level):
    policies, reports = StoredPolicies("new", writes_limits=writes_limits), {"gpu-1": says(mib=40960)}
    found = lines("fractions", nodes=(node(gpu_mib=None),), reports=reports, policies=policies)
    what = "node gpu-1: the node label nvidia.com/gpu.memory is missing or not a number of MiB"
    assert found == [(level, f"{what} -- kubectl label node gpu-1 nvidia.com/gpu.memory=40960")]


def test_a_node_that_has_its_label_by_now_is_not_blamed_for_an_older_ledger():
    reported = conditions(TakesFractions=("False", "NoMemoryLabel", "the label is missing: set it"))
    assert lines("fractions", ledgers={"gpu-1": reported})[0][0] == "ok"


def test_a_node_without_a_ledger_and_one_that_gives_out_more_than_there_is_are_warnings():
    reported = conditions(OverCommitted=("True", "CapacityLost", "pods hold 3 slices more than exist"))
    for found, what in (({}, "it has no GpuLedger: "), ({"gpu-1": reported}, "pods hold 3 slices more than")):
        [(level, text)] = lines("ledgers", ledgers=found)
        assert (level, text.startswith(f"node gpu-1: {what}")) == ("warning", True)
