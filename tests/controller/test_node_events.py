"""What is wrong with a node's annotation is told on the node, once."""

import asyncio

from controller.ledger_store import LedgerStore
from controller.node_events import NodeEvents
from controller.resources import nodes
from modes.resource_names import ResourceNames
from tests.controller.objects import node, read_object


class Leading:
    leads = True


class Recording:
    def __init__(self):
        self.bodies = []

    async def request(self, method, path, *, body):
        assert (method, path) == ("POST", "/api/v1/namespaces/default/events")
        self.bodies.append(body)


def seen(name, cordon):
    found = node(name)
    found["metadata"]["annotations"] = {"clearml-injector/cordon": cordon}
    return read_object(nodes(ResourceNames()), found)


def test_a_bad_cordon_is_an_event_on_the_node_once():
    state, api = LedgerStore(lambda: 0.0), Recording()
    events = NodeEvents(api, state, Leading())
    for name, cordon in (("a", "1"), ("b", "gpu1"), ("c", "9")):
        state.set_node(seen(name, cordon))
    assert state.nodes["a"].fact.cordoned == {1}
    asyncio.run(events.check_nodes())
    asyncio.run(events.check_nodes())
    assert [(each["involvedObject"]["name"], each["reason"]) for each in api.bodies] == [
        ("b", "BadCordon"),
        ("c", "BadCordon"),
    ]
    assert '"gpu1" is no number' in api.bodies[0]["message"]
    assert "no GPU 9: it has 0,1" in api.bodies[1]["message"]
    state.set_node(seen("b", "gpu2"))
    asyncio.run(events.check_nodes())
    assert len(api.bodies) == 3
