"""What is wrong with a node's annotation is reported on the node, once."""

import asyncio

from controller.publish.node_events import NodeEvents
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes
from modes.resource_names import ResourceNames
from tests.cluster.events import KeptEvents
from tests.cluster.fake_lease import Leading
from tests.cluster.objects import node, read_object


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
