"""What one tenant can take of nodes that are divided on demand, and what is left to the others."""

import asyncio

from tests.controller.geometry.cluster import MigCluster

MANY = 30
OLD = "2025-01-01T00:00:00Z"


def add_old(cluster, pods, profile, namespace="greedy", **more):
    """Add pods that are older than all others, with names that are sorted to be first."""
    for number in range(pods):
        name = f"{number:05}-{namespace}-{profile}"
        cluster.add_pod(name, profile, namespace=namespace, **more)
        cluster.pods[name]["metadata"]["creationTimestamp"] = OLD


def node_of(cluster, name):
    return cluster.pods[name]["spec"].get("nodeName")


def test_pods_that_no_card_can_serve_do_not_stop_the_others():
    cluster = MigCluster()
    add_old(cluster, MANY, "1g.7gb")
    add_old(cluster, MANY, "3g.20gb", namespace="wide", count=3)
    add_old(cluster, MANY, "3g.20gb", namespace="selective", nodeSelector={"disk": "none-has-it"})
    add_old(cluster, MANY, "3g.20gb", namespace="thirsty", cpu="65")
    cluster.add_pod("p", "3g.20gb", namespace="modest")
    asyncio.run(cluster.run(20))
    assert node_of(cluster, "p") == "n0"


def test_nothing_is_divided_for_a_pod_that_is_being_deleted():
    cluster = MigCluster()
    cluster.add_pod("p", "3g.20gb")
    cluster.pods["p"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    asyncio.run(cluster.run(30))
    assert cluster.count("started") == 0


def test_a_node_is_not_divided_again_before_the_pause_is_over_no_matter_who_leads():
    cluster = MigCluster(pause_seconds=300.0)
    cluster.add_pod("p", "3g.20gb")
    asyncio.run(cluster.run(20))
    assert cluster.count("succeeded") == 1
    del cluster.pods["p"]
    cluster.add_pod("q", "7g.40gb")
    asyncio.run(cluster.run(100))
    cluster.start()
    asyncio.run(cluster.run(150))
    assert node_of(cluster, "q") is None
    asyncio.run(cluster.run(80))
    assert node_of(cluster, "q") == "n0"
