"""The packing bench: traces in eighths, and arrivals as in the FGD paper."""

import csv
from pathlib import Path

import pytest

from bench.packing.__main__ import allocated
from bench.packing.policies import Ours
from bench.packing.trace import TraceNode, TracePod, load, synthetic


class FirstOnly:
    """Has room for one pod."""

    def __init__(self):
        self.placed = 0

    def place(self, _pod: TracePod) -> bool:
        self.placed += 1
        return self.placed == 1


def test_allocation_is_read_when_the_arrived_load_is_the_capacity():
    pods = [TracePod(1000, 1024, 8, 1000)] * 3
    assert allocated(FirstOnly(), pods, capacity=16_000) == 50.0


@pytest.mark.parametrize(("milli", "eighths"), [(1, 125), (125, 125), (126, 250), (875, 875), (876, 1000)])
def test_shares_are_rounded_up_to_eighths(tmp_path: Path, milli: int, eighths: int):
    nodes = [{"sn": "n", "cpu_milli": 64_000, "memory_mib": 1024, "gpu": 8, "model": "A"}]
    pods = [{"name": "p", "cpu_milli": 1000, "memory_mib": 1024, "num_gpu": 1, "gpu_milli": milli}]
    for name, rows in (("node_list_gpu_node", nodes), ("pod_list_default", pods)):
        with (tmp_path / f"openb_{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    assert [pod.gpu_milli for pod in load(tmp_path).in_eighths().pods] == [eighths]


def test_arrivals_stop_before_they_pass_the_load_and_repeat_by_seed():
    trace = synthetic(nodes=4, pods=40)
    arrivals = trace.arrivals(3, 1.3)
    assert sum(pod.total for pod in arrivals) <= 1.3 * trace.capacity
    assert arrivals == trace.arrivals(3, 1.3)
    assert arrivals != trace.arrivals(4, 1.3)


def test_a_pod_that_names_models_is_placed_on_those_only():
    nodes = [TraceNode("a", 64_000, 1024, 1, "T4"), TraceNode("b", 64_000, 1024, 1, "G2")]
    pod = TracePod(1000, 1, 1, 1000, ("G2",))
    policy = Ours(nodes)
    assert [policy.place(pod), policy.place(pod)] == [True, False]
