"""What is reported of pods that wait, and what a change of leader, a lost node or a jumping clock does."""

import asyncio

import pytest

from controller.geometry.loop import MAX_NAMED
from controller.geometry.mig_manager import MigManager
from controller.geometry.planner import IN_USE
from tests.controller.geometry.cluster import MigCluster
from tests.effort import by_turns

CHANGE, DIVIDED_AT = "clearml-injector/mig-change", "clearml-injector/mig-divided-at"


EVERY = by_turns("controller", usual=2, full=1)
"""Turns of the loop between the moments at which something happens."""


def messages(cluster, name):
    return [event["message"] for event in cluster.events if event["involvedObject"]["name"] == name]


def node_of(cluster, name):
    return cluster.pods[name]["spec"].get("nodeName")


def divided(**options):
    """A cluster whose one node was divided for a pod that is gone."""
    cluster = MigCluster(**options)
    cluster.add_pod("first", "3g.20gb")
    asyncio.run(cluster.run(20))
    assert cluster.count("succeeded") == 1
    del cluster.pods["first"]
    return cluster


def test_the_event_of_a_division_says_until_when_the_node_is_not_divided_again():
    cluster = divided(pause_seconds=300.0)
    cluster.add_pod("p", "7g.40gb")
    asyncio.run(cluster.run(40))
    ends = cluster.nodes["n0"]["metadata"]["annotations"][DIVIDED_AT].replace(":00:", ":05:")
    assert messages(cluster, "p") == [IN_USE]
    (of_node,) = messages(cluster, "n0")
    assert of_node.endswith(f"; not divided again before {ends}")
    assert cluster.registry.get_sample_value("fraction_injector_mig_waiting") == 1


def test_of_very_many_pods_to_tell_something_some_of_each_namespace_get_one_event():
    cluster = MigCluster()
    for number in range(3 * MAX_NAMED):
        cluster.add_pod(f"p{number}", "1g.7gb", namespace="greedy")
    cluster.add_pod("q", "1g.7gb", namespace="modest")
    asyncio.run(cluster.run(2))
    assert len(cluster.events) == MAX_NAMED
    assert len(messages(cluster, "q")) == 1


def test_a_replica_that_stops_leading_in_the_midst_of_a_step_writes_nothing_more():
    cluster = MigCluster(cards=(1, 1))
    for name in "pq":
        cluster.add_pod(name, "7g.40gb")
    while not any(CHANGE in node["metadata"]["annotations"] for node in cluster.nodes.values()):
        before = [dict(node["metadata"]["annotations"]) for node in cluster.nodes.values()]
        cluster.leads_for = 1
        asyncio.run(cluster.turn())
    after = [dict(node["metadata"]["annotations"]) for node in cluster.nodes.values()]
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_a_node_whose_requests_get_no_answer_keeps_no_other_waiting(monkeypatch):
    held, together = MigManager.held, asyncio.Barrier(2)

    async def slow(manager, node):
        if node == "n0":
            raise TimeoutError
        await together.wait()
        return await held(manager, node)

    monkeypatch.setattr(MigManager, "held", slow)
    cluster = MigCluster(cards=(1, 1, 1))
    for name in "pqr":
        cluster.add_pod(name, "7g.40gb")
    asyncio.run(cluster.run(40))
    assert sorted(filter(None, (node_of(cluster, name) for name in "pqr"))) == ["n1", "n2"]


@pytest.mark.parametrize("turns", range(4, 16, EVERY))
def test_two_controllers_that_take_turns_end_what_the_other_began(turns):
    """Each goes on from where it was itself: with plans, and with clocks that began at other times."""
    cluster = MigCluster(cards=(1, 1))
    for name in "pq":
        cluster.add_pod(name, "7g.40gb")
    cluster.start()
    other = cluster.loop, cluster.store
    cluster.start()
    for _ in range(12):
        asyncio.run(cluster.run(turns))
        (cluster.loop, cluster.store), other = other, (cluster.loop, cluster.store)
    assert {node_of(cluster, name) for name in "pq"} == {"n0", "n1"}
    assert sum(manager.refusals for manager in cluster.managers.values()) == 0
    asyncio.run(cluster.run(20))
    assert not any(CHANGE in node["metadata"]["annotations"] for node in cluster.nodes.values())


def test_a_node_whose_cpu_goes_while_its_division_is_planned_is_not_cordoned():
    cluster = MigCluster(delay_seconds=30.0)
    cluster.add_pod("p", "3g.20gb", cpu="40")
    asyncio.run(cluster.run(10))
    cluster.add_pod("cpu-holder", "3g.20gb", nodeName="n0")
    cluster.pods["cpu-holder"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "30"}
    asyncio.run(cluster.run(60))
    assert CHANGE not in cluster.nodes["n0"]["metadata"]["annotations"]
    assert cluster.count("started") == 0
