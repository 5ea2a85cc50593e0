"""Findings as Events on their pods."""

import asyncio
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from controller.metrics import ControllerMetrics
from controller.pod_events import PodEvents, pod_event
from controller.pod_findings import Finding
from modes.resource_names import ResourceNames
from tests.controller.test_pod_findings import changed, cluster, seen


def test_an_event_is_named_by_pod_and_reason_so_that_it_is_told_once():
    finding = Finding("team", "a", "u", "FractionDrift", "text")
    made = pod_event(finding, "text", datetime(2026, 11, 21, 10, tzinfo=UTC))
    assert made["metadata"] == {"name": "a.d3f4a18b624eed52", "namespace": "team"}
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "a", "uid": "u"}
    assert made["involvedObject"] == about
    assert (made["type"], made["firstTimestamp"]) == ("Warning", "2026-11-21T10:00:00Z")


class Leading:
    leads = True


class Silent:
    """An API server that is never asked."""


def test_a_pod_that_did_not_wait_for_slices_yet_is_looked_at_again():
    state = cluster(nodes=["gpu-0"])
    registry = CollectorRegistry()
    events = PodEvents(Silent(), state, Leading(), ControllerMetrics(registry), ResourceNames())
    waiting = seen(changed(lacks_slices=True), memory_values=("81920",))
    state.set_pod(waiting)
    asyncio.run(events._write_event(events._pending.get_nowait()))
    assert events._pending.empty()
    state.set_pod(seen(changed(lacks_slices=True, asked="0.5"), memory_values=("81920",)))
    assert events._pending.get_nowait().reason == "WaitingForSlices"
