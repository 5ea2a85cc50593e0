"""The metrics of each GPU."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from controller.publish.gpu_metrics import CARD_NAME, KEPT_SECONDS, NAME, GpuMetrics
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode, SeenPod
from kube.dra import DRIVER
from modes.facts import NodeFact, PodFact
from tests.controller.cards import with_cards
from tests.controller.watch.test_ledger_store import Clock


def rendered(state, *, leads):
    return asyncio.run(GpuMetrics(state, lambda: leads).text()).decode()


def store():
    state = LedgerStore(lambda: 0.0)
    state.set_node(SeenNode(NodeFact(name="gpu-0", gpus=((0, 8), (3, 8)), slices_per_gpu=8), "a"))
    state.set_node(SeenNode(NodeFact(name="pool", pooled=16, pooled_gpus=2), "b"))
    held = PodFact(namespace="team", name="a", node="gpu-0", takes=((3, 5),))
    state.set_pod(SeenPod(held, None))
    return state


def test_each_gpu_has_its_allocated_and_free_slices():
    [family] = text_string_to_metric_families(rendered(store(), leads=True))
    found = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    assert {sample.name for sample in family.samples} == {NAME}
    assert found == {
        ("gpu-0", "0", "allocated"): 0,
        ("gpu-0", "0", "free"): 8,
        ("gpu-0", "3", "allocated"): 5,
        ("gpu-0", "3", "free"): 3,
        ("pool", "pool", "allocated"): 0,
        ("pool", "pool", "free"): 16,
    }


def test_each_card_of_a_driver_has_its_claimed_and_free_mib():
    _, family = text_string_to_metric_families(rendered(with_cards(store()), leads=True))
    assert {sample.name for sample in family.samples} == {CARD_NAME}
    assert {tuple(sample.labels.values()): sample.value for sample in family.samples} == {
        ("cards", DRIVER, "gpu-0", "claimed"): 30720,
        ("cards", DRIVER, "gpu-0", "free"): 51200,
        ("cards", DRIVER, "gpu-1", "claimed"): 0,
        ("cards", DRIVER, "gpu-1", "free"): 0,
    }


def held(name, slices):
    return SeenPod(PodFact(namespace="team", name=name, node="gpu-0", takes=((0, slices),)), None)


async def test_a_rendering_is_kept_for_seconds_and_by_the_leader_alone():
    state, clock, leads = store(), Clock(), [True]
    metrics = GpuMetrics(state, lambda: leads[0], clock)

    async def used():
        text = (await metrics.text()).decode()
        return [line.rpartition(" ")[2] for line in text.splitlines() if 'gpu="0",state="allocated"' in line]

    found = [await used()]
    state.set_pod(held("b", 2))
    clock.now = KEPT_SECONDS - 0.1
    found.append(await used())
    leads[0] = False
    found.append(await used())
    leads[0] = True
    found.append(await used())
    state.set_pod(held("c", 1))
    clock.now += KEPT_SECONDS
    assert [*found, await used()] == [["0"], ["0"], [], ["2"], ["3"]]
