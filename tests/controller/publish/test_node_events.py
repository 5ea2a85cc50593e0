"""What is wrong with a node's annotation is reported on the node, once."""

import asyncio
from datetime import UTC, datetime

from controller.publish.node_events import NodeEvents, node_event
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resource_slice import DraSlice
from controller.watch.resources import nodes
from modes.resource_names import ResourceNames
from tests.cluster.events import KeptEvents
from tests.cluster.objects import node, read_object


class Leading:
    leads = True


def seen(name, cordon):
    found = node(name)
    found["metadata"]["annotations"] = {"clearml-injector/cordon": cordon}
    return read_object(nodes(ResourceNames()), found)


def test_a_bad_cordon_is_an_event_on_the_node_once():
    state, kept = LedgerStore(lambda: 0.0), KeptEvents()
    events = NodeEvents(kept, state, Leading())
    for name, cordon in (("a", "1"), ("b", "gpu1"), ("c", "9")):
        state.set_node(seen(name, cordon))
    assert state.nodes["a"].fact.cordoned == {1}
    asyncio.run(events.check_nodes())
    asyncio.run(events.check_nodes())
    assert [(each["involvedObject"]["name"], each["reason"]) for each in kept.bodies] == [
        ("b", "BadCordon"),
        ("c", "BadCordon"),
    ]
    assert '"gpu1" is not a GPU index' in kept.bodies[0]["message"]
    assert "no GPU 9: it has 0,1" in kept.bodies[1]["message"]
    state.set_node(seen("b", "gpu2"))
    asyncio.run(events.check_nodes())
    assert len(kept.bodies) == 3


def test_gpus_that_are_offered_twice_are_an_event_on_the_node_with_what_to_do():
    state, kept = LedgerStore(lambda: 0.0), KeptEvents()
    events = NodeEvents(kept, state, Leading())
    for name in "ab":
        state.set_node(seen(name, ""))
    state.set_slice(DraSlice("s", "a", ("GPU-0",)))
    asyncio.run(events.check_nodes())
    asyncio.run(events.check_nodes())
    [found] = kept.bodies
    assert (found["involvedObject"]["name"], found["reason"], found["type"]) == (
        "a",
        "OfferedTwice",
        "Warning",
    )
    assert found["message"] == (
        "GPUs are offered twice, by a device plugin and by DRA, whose claims get whole GPUs: turn one of"
        " the two off on this node (kubectl get resourceslices --field-selector spec.nodeName=a)"
    )
    assert len(found["message"]) <= 200


def test_single_gpus_that_are_offered_twice_are_named():
    state, kept = LedgerStore(lambda: 0.0), KeptEvents()
    state.set_node(seen("a", ""))
    state.set_agent(AgentReport("a", ((0, 40960), (1, 40960)), uuids=("GPU-0", "GPU-1"), is_registered=True))
    state.set_slice(DraSlice("s", "a", ("GPU-1",)))
    asyncio.run(NodeEvents(kept, state, Leading()).check_nodes())
    assert kept.bodies[0]["message"].startswith("of its GPUs 1: GPUs are offered twice")


def test_it_is_reported_again_in_each_hour_for_as_long_as_it_lasts():
    node = seen("a", "")
    one, same, next_hour = (
        node_event(node, "OfferedTwice", "what", datetime(2026, 1, 1, hour, minute, tzinfo=UTC))["metadata"][
            "name"
        ]
        for hour, minute in ((1, 0), (1, 59), (2, 0))
    )
    assert one == same != next_hour
