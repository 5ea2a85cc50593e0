"""Lists of nodes and pods are taken in and shown a slice at a time: counted, never timed."""

import asyncio
import dataclasses
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.placement_api import ControllerApi
from controller.publish.gpu_metrics import GpuMetrics
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from ledger import ledger_reader
from ledger.messages import write_request
from modes.fraction import Fraction
from service.yielding import FACTS_AT_ONCE, NODES_AT_ONCE
from tests.controller.watch.test_ledger_store import Clock, pages, ready_state, seen_node, seen_pod
from tests.ledger.cluster import request_of
from tests.service.loop_steps import Steps

NODES = 10 * NODES_AT_ONCE + 1
NAMES = [f"gpu-{number:03}" for number in range(NODES)]


@pytest.fixture
def views(monkeypatch):
    """Gives, within a loop, the count of node views that are built from now on."""

    def counted():
        steps = Steps()
        monkeypatch.setattr(ledger_reader, "node_view", steps.count(ledger_reader.node_view))
        return steps

    return counted


async def test_all_nodes_are_rendered_a_few_at_a_time(views):
    state, _ = ready_state(*NAMES)
    steps = views()
    await GpuMetrics(state, lambda: True).text()
    assert (steps.total, steps.most) == (NODES, NODES_AT_ONCE)


@pytest.mark.parametrize("what", ["nodes", "pods"])
async def test_a_whole_list_is_taken_in_a_slice_at_a_time(what):
    count = 5 * FACTS_AT_ONCE + 1

    def items(first):
        numbers = range(first, first + count)
        return [seen_node(f"n{i}") if what == "nodes" else seen_pod(f"p{i}", node="n0") for i in numbers]

    state, steps = LedgerStore(Clock()), Steps()
    sink = state.watched_nodes if what == "nodes" else state.watched_pods
    sink = dataclasses.replace(sink, set=steps.count(sink.set), remove=steps.count(sink.remove))
    await sink.replace(pages(items(0)))
    await sink.replace(pages(items(count - 1)))
    assert len(getattr(state, what)) == count
    assert (steps.total, steps.most) == (count + count + count - 1, FACTS_AT_ONCE)


def test_a_batch_stops_as_soon_as_its_controller_no_longer_leads(monkeypatch):
    state, _ = ready_state("a")
    leadership = SimpleNamespace(leads=True, leader=None)
    served = ControllerApi(state, leadership, ControllerMetrics(CollectorRegistry()))

    def place(ask):
        leadership.leads = False
        return LedgerStore.place(state, ask)

    monkeypatch.setattr(state, "place", place)
    asks = [msgspec.Raw(write_request(request_of(Fraction(1, 8)))) for _ in range(2)]
    assert asyncio.run(served._decide(SimpleNamespace(asks=asks, releases=[]))) is None
