"""A mode that nobody knows but the registry is placed, explained and read back as it says itself."""

import pytest

from ledger.placement_request import Assumption, Placement, Unschedulable
from modes.fraction import Fraction
from modes.per_gpu import PerGpu
from modes.registry import MODES
from tests.ledger.cluster import gpu_node, ledger_of, request_of

HALF = Fraction(4, 8)


class EvenGpus(PerGpu):
    """GPUs of even index alone, on nodes that say so."""

    name = "even-gpus"

    @staticmethod
    def gpu_count(node):
        return PerGpu.gpu_count(node) if node.labels.get("gpus") == "even" else None

    @staticmethod
    def choosable(gpus):
        return {index: slices for index, slices in gpus.items() if index % 2 == 0}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(MODES, EvenGpus.name, EvenGpus)


def request(**more):
    return request_of(HALF, mode=EvenGpus.name, **more)


def even(name, gpus):
    return gpu_node(name, gpus, 81920, labels={"gpus": "even", "nvidia.com/gpu.memory": "81920"})


def test_the_ledger_places_on_the_gpus_that_the_mode_chooses_from():
    ledger = ledger_of(gpu_node("other", 4, 81920), even("own", 4))
    placed = [ledger.place(request(reservation=f"r{number}"), 0.0) for number in range(4)]
    assert {answer.node for answer in placed} == {"own"}
    assert [answer.indices for answer in placed] == [(0,), (0,), (2,), (2,)]


def test_nodes_of_other_modes_alone_are_named_as_the_reason():
    answer = ledger_of(gpu_node("other", 4, 81920)).place(request(), 0.0)
    assert isinstance(answer, Unschedulable)
    assert "another resource name" in answer.why


def test_an_index_of_an_assumed_node_is_one_that_the_mode_chooses_from():
    answer = ledger_of().place(request(assume=Assumption(2, 81920)), 0.0)
    assert isinstance(answer, Placement)
    assert answer.indices == (0,)
