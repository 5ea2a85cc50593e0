"""Which events and answers make a GPU unhealthy, and which make it well again."""

import asyncio
import time
from unittest import mock

import grpc
import pynvml
import pytest
from prometheus_client import CollectorRegistry

from agent.faults import Faults
from agent.gpu import Gpu, GpuCondition, GpuSourceError, HealthEvent
from agent.health import GOOD_CHECKS, HealthWatch
from agent.metrics import AgentMetrics
from agent.nvml import Nvml
from agent.settings import APPLICATION_XIDS
from agent.state import AgentState
from testbed.nvidia.cards import Xid
from tests.agent.support.node import card, ids, node_with, running, served

CARDS = (Gpu(0, "GPU-0", "NVIDIA A100", 40960), Gpu(1, "GPU-1", "NVIDIA A100", 40960))
WELL, AWAY = GpuCondition(answers=True), GpuCondition(answers=False)
RESET = GpuCondition(answers=True, recovery="reset of the GPU")


@pytest.fixture
def state():
    return AgentState(CARDS)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def watch(state, registry, tmp_path):
    return watch_of(state, tmp_path, registry)


def watch_of(state, folder, registry=None, *, boot="first", source=None):
    """An agent's, as it starts on a node in some boot."""
    metrics = AgentMetrics(registry or CollectorRegistry())
    return HealthWatch(source, state, APPLICATION_XIDS, metrics, Faults(folder, boot))


@pytest.mark.parametrize("uuid", [None, "GPU-of-another-node"])
def test_an_event_of_an_unknown_gpu_is_only_logged(watch, state, uuid, capfd):
    watch.take_event(HealthEvent(uuid, 79))
    assert state.unhealthy == {}
    assert "error of a GPU that is not offered" in capfd.readouterr().err


IN_MIG, UNWATCHED = GpuCondition(answers=True, mig=True), GpuCondition(answers=True, watch_error="Unknown")
OFTEN, NEARLY = [WELL] * 100, [WELL] * (GOOD_CHECKS - 1)


@pytest.mark.parametrize(
    ("happened", "why"),
    [
        *[([xid, *OFTEN[:1]], None) for xid in APPLICATION_XIDS],
        *[([xid], f"Xid {xid}") for xid in (48, 74, 79, 94, 119)],
        ([AWAY], "it does not answer"),
        ([IN_MIG], "it is in MIG mode"),
        ([UNWATCHED], "its errors cannot be watched: Unknown"),
        *[([wrong, WELL], None) for wrong in (AWAY, IN_MIG, UNWATCHED)],
        # An Xid is over once the driver no longer asks for a reset, and not before.
        ([48, RESET], "its driver asks for: reset of the GPU"),
        ([48, RESET, WELL], None),
        ([79, IN_MIG, *OFTEN], "Xid 79"),
        # A card that survives one is offered again after good checks, if nothing else is wrong.
        *[([*OFTEN, xid, *NEARLY], f"Xid {xid}") for xid in (94, 154, 63)],
        ([94, *NEARLY, 94, *NEARLY], "Xid 94"),
        ([94, *NEARLY, 94, *NEARLY, WELL], None),
        *[([94, *NEARLY, *[bad] * 100], bad.why_unhealthy) for bad in (RESET, AWAY, IN_MIG)],
        *[([94, *NEARLY, bad, *NEARLY, WELL], None) for bad in (RESET, AWAY, IN_MIG)],
        # One that it survives hides no fault.
        ([79, 94, *OFTEN], "Xid 79"),
        ([94, 48], "Xid 48"),
    ],
)
def test_a_gpu_is_unhealthy_by_its_xids_and_what_its_driver_answers(watch, state, registry, happened, why):
    for each in happened:
        if isinstance(each, int):
            watch.take_event(HealthEvent("GPU-0", each))
        else:
            watch.take_condition(CARDS[0], each)
    assert state.unhealthy == ({"GPU-0": why} if why is not None else {})
    healthy = registry.get_sample_value("fraction_injector_agent_gpu_healthy", {"gpu": "0", "uuid": "GPU-0"})
    assert healthy == (why is None)


def test_a_driver_without_events_for_a_gpu_is_logged_once(watch, state, registry, capfd):
    tells = "fraction_injector_agent_gpu_tells_xids", {"gpu": "0", "uuid": "GPU-0"}
    for _ in range(3):
        watch.take_condition(CARDS[0], GpuCondition(answers=True, tells_xids=False))
    assert (state.unhealthy, registry.get_sample_value(*tells)) == ({}, 0)
    assert capfd.readouterr().err.count("its Xids are not seen") == 1
    watch.take_condition(CARDS[0], WELL)
    assert registry.get_sample_value(*tells) == 1


def source_of(*events):
    """GPUs that are all well, and what happened to them."""
    return mock.Mock(wait_for_event=mock.Mock(side_effect=events), condition_of=lambda uuid: WELL)


def lived(folder, *events, boot="first"):
    """Have an agent live through events; return what was unhealthy at its start and its end."""
    state = AgentState(CARDS)
    watch = watch_of(state, folder, boot=boot, source=source_of(*events))
    at_start = dict(state.unhealthy)

    async def live():
        for _ in events:
            await watch._wait_once()
        await watch.check_all()

    asyncio.run(live())
    return at_start, dict(state.unhealthy)


def test_a_fault_outlives_the_agent_and_ends_with_the_boot(tmp_path):
    lived(tmp_path, HealthEvent("GPU-0", 79))
    assert lived(tmp_path) == ({"GPU-0": "Xid 79"}, {"GPU-0": "Xid 79"})
    assert lived(tmp_path, boot="second") == ({}, {})


def test_a_fault_is_over_when_the_driver_asks_for_no_recovery_any_more_also_for_the_next_agent(tmp_path):
    lived(tmp_path, HealthEvent("GPU-0", 79), HealthEvent("GPU-1", 79))
    watch = watch_of(AgentState(CARDS), tmp_path)
    watch.take_condition(CARDS[0], RESET)
    watch._faults.save()
    assert lived(tmp_path) == ({"GPU-0": "Xid 79", "GPU-1": "Xid 79"}, {"GPU-1": "Xid 79"})
    assert lived(tmp_path) == ({"GPU-1": "Xid 79"}, {"GPU-1": "Xid 79"})


async def test_an_error_of_waiting_marks_no_gpu(state, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("agent.health.CHECK_SECONDS", 0)
    failures = [GpuSourceError("NVML: waiting for events: Unknown Error")] * 5
    watch = watch_of(state, tmp_path, source=source_of(*failures))
    for _ in range(5):
        await watch._wait_once()
    assert state.unhealthy == {}
    assert capfd.readouterr().err.count("waiting for events of GPUs failed") == 1


class SlowDriver(Nvml):
    """Takes a second to say how a GPU is."""

    def condition_of(self, uuid):
        time.sleep(1)
        return super().condition_of(uuid)


async def test_an_agent_that_starts_offers_no_unhealthy_gpu():
    resets = card(0, recovery=pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET)
    async with node_with(resets) as (node, kubelet), running(node, source=SlowDriver()):
        assert await kubelet.until_first_offered("nvidia.com/gpu-0") == 0


async def test_a_gpu_that_became_unhealthy_after_the_kubelet_chose_it_is_refused():
    async with served(card(0), card(1)) as (node, kubelet):
        node.write_gpus(card(0), card(1), events=(Xid("GPU-1", 79),))
        await kubelet.until_offered("nvidia.com/gpu-1", 0)
        assert list(kubelet.devices["nvidia.com/gpu-1"]) == ids(1, *range(8))
        with pytest.raises(grpc.aio.AioRpcError, match=r"GPU 1 is unhealthy \(Xid 79\)"):
            await kubelet.allocate("nvidia.com/gpu-1", "GPU-1::0")
        await kubelet.allocate("nvidia.com/gpu-0", "GPU-0::0")
