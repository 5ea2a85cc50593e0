"""The metrics of each GPU."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from controller.gpu_metrics import NAME, render
from controller.ledger_store import LedgerStore
from controller.resources import SeenNode, SeenPod
from ledger.facts import NodeFact, PodFact


def rendered(state, *, leads):
    async def joined():
        return "".join([part async for part in render(state, leads=leads)])

    return asyncio.run(joined())


def store():
    state = LedgerStore(lambda: 0.0)
    state.set_node(SeenNode(NodeFact(name="gpu-0", gpus=((0, 8), (3, 8)), slices_per_gpu=8), "a"))
    state.set_node(SeenNode(NodeFact(name="pool", pooled=16, pooled_gpus=2), "b"))
    held = PodFact(namespace="team", name="a", node="gpu-0", gpus=((3, 5),))
    state.set_pod(SeenPod(held, None))
    return state


def test_each_gpu_has_its_used_and_free_slices():
    [family] = text_string_to_metric_families(rendered(store(), leads=True))
    found = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    assert {sample.name for sample in family.samples} == {NAME}
    assert found == {
        ("gpu-0", "0", "used"): 0,
        ("gpu-0", "0", "free"): 8,
        ("gpu-0", "3", "used"): 5,
        ("gpu-0", "3", "free"): 3,
        ("pool", "pool", "used"): 0,
        ("pool", "pool", "free"): 16,
    }


def test_a_replica_that_does_not_lead_has_no_series():
    [family] = text_string_to_metric_families(rendered(store(), leads=False))
    assert family.samples == []
