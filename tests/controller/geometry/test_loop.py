"""The geometry loop against the testbed's MIG manager, in memory: whole changes, crashes and failures."""

import asyncio
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.geometry.mig_config import MigConfigFile
from controller.geometry.planner import NO_CARD
from modes.mig_geometry import full_geometries
from modes.mig_profiles import A100_40GB
from tests.controller.geometry.cluster import MigCluster
from tests.effort import by_turns

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
CHANGE = "clearml-injector/mig-change"
SEVEN = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}


def run(cluster, **pods):
    for name, profile in pods.items():
        cluster.add_pod(name, profile)
    asyncio.run(cluster.until_quiet())
    return cluster


def assert_settled(cluster):
    """No pod waits, no instance in use would have gone, and no node is cordoned."""
    assert not cluster.waiting()
    assert_harmless(cluster)


def assert_harmless(cluster):
    assert sum(manager.refusals for manager in cluster.managers.values()) == 0
    for node in cluster.nodes.values():
        assert CHANGE not in node["metadata"]["annotations"]
        assert not node["spec"].get("unschedulable")


def test_a_pending_pod_runs_after_its_node_was_divided():
    cluster = run(MigCluster(), p="3g.20gb")
    assert_settled(cluster)
    assert (cluster.count("started"), cluster.count("succeeded"), cluster.count("failed")) == (1, 1, 0)
    (event,) = cluster.events
    assert (event["reason"], event["type"], event["involvedObject"]["name"]) == ("MigDivided", "Normal", "n0")


def test_the_config_map_is_there_before_any_node_is_ours_as_the_mig_managers_pods_wait_for_it():
    cluster = MigCluster()
    for node in cluster.nodes.values():
        del node["metadata"]["labels"]["clearml-injector/gpu-partitioning"]
    asyncio.run(cluster.turn())
    assert set(yaml.safe_load(cluster.config_map)["mig-configs"]) == {"all-disabled", "all-enabled"}


def test_entries_of_others_stay_in_the_config_map():
    cluster = MigCluster()
    cluster.config_map = yaml.safe_dump({"version": "v1", "mig-configs": {"mine": [SEVEN]}})
    run(cluster, p="3g.20gb")
    assert_settled(cluster)
    assert yaml.safe_load(cluster.config_map)["mig-configs"]["mine"] == [SEVEN]


def test_what_is_no_file_of_mig_parted_is_left_alone():
    cluster = MigCluster()
    cluster.config_map = "mig-configs: [1]"
    run(cluster, p="3g.20gb")
    assert cluster.config_map == "mig-configs: [1]"
    assert cluster.waiting()


def test_a_change_that_fails_is_reported_and_tried_again():
    cluster = MigCluster()
    cluster.managers["n0"].fail_next = 2
    run(cluster, p="3g.20gb")
    assert_settled(cluster)
    assert (cluster.count("failed"), cluster.count("succeeded")) == (2, 1)
    assert cluster.reasons()["MigChangeFailed"] == 2


def test_a_mig_manager_that_gives_up_is_reported_with_the_labels_that_it_left_paused():
    """It leaves the state at pending when pods do not end in time."""
    cluster = MigCluster()
    paused = {f"nvidia.com/gpu.deploy.{name}": "paused-for-mig-change" for name in ("dcgm", "client")}

    def hang(node, held, config_map):
        is_asked = node["metadata"]["labels"].get(STATE) == "pending"
        return SimpleNamespace(labels=paused if is_asked else {}, allocatable=None)

    cluster.managers["n0"].turn = hang
    cluster.seconds = 60.0
    cluster.add_pod("p", "3g.20gb")
    asyncio.run(cluster.run(60))
    messages = [event["message"] for event in cluster.events if event["reason"] == "MigChangeFailed"]
    assert len(messages) == 2, "it is tried again"
    assert (
        "labels, set each to true: nvidia.com/gpu.deploy.client, nvidia.com/gpu.deploy.dcgm;" in messages[0]
    )


def test_what_no_card_can_have_is_said_at_once_and_changes_nothing():
    cluster = MigCluster()
    cluster.add_pod("p", "1g.7gb")
    asyncio.run(cluster.run(3))
    (event,) = cluster.events
    assert event["message"] == NO_CARD
    assert CONFIG not in cluster.nodes["n0"]["metadata"]["labels"]


def test_a_card_that_is_not_known_is_said_on_its_node():
    cluster = MigCluster()
    cluster.nodes["n0"]["metadata"]["labels"]["nvidia.com/gpu.product"] = "Tesla-T4"
    asyncio.run(cluster.run(2))
    (event,) = cluster.events
    assert (event["reason"], event["involvedObject"]["kind"]) == ("MigNotDivided", "Node")
    assert "Tesla-T4" in event["message"]


def test_nodes_without_the_label_are_left_alone():
    cluster = MigCluster()
    del cluster.nodes["n0"]["metadata"]["labels"]["clearml-injector/gpu-partitioning"]
    run(cluster, p="3g.20gb")
    assert cluster.waiting()
    assert not MigConfigFile(cluster.config_map).divisions


def test_a_node_that_an_admin_cordoned_is_left_alone():
    cluster = MigCluster()
    cluster.nodes["n0"]["spec"]["unschedulable"] = True
    run(cluster, p="3g.20gb")
    assert CONFIG not in cluster.nodes["n0"]["metadata"]["labels"]


def test_a_node_that_loses_the_label_is_uncordoned():
    cluster = MigCluster()
    cluster.add_pod("p", "3g.20gb")
    while CHANGE not in cluster.nodes["n0"]["metadata"]["annotations"]:
        asyncio.run(cluster.turn())
    del cluster.nodes["n0"]["metadata"]["labels"]["clearml-injector/gpu-partitioning"]
    asyncio.run(cluster.run(3))
    assert_harmless(cluster)


def test_a_pod_that_came_in_between_keeps_its_instance():
    cluster = MigCluster()
    cluster.config_map = yaml.safe_dump({"version": "v1", "mig-configs": {"seven": [SEVEN]}})
    cluster.nodes["n0"]["metadata"]["labels"][CONFIG] = "seven"
    asyncio.run(cluster.run(8))
    cluster.add_pod("large", "3g.20gb")
    while CHANGE not in cluster.nodes["n0"]["metadata"]["annotations"]:
        asyncio.run(cluster.turn())
    cluster.add_pod("late", "1g.5gb", nodeName="n0")
    asyncio.run(cluster.run(20))
    assert cluster.nodes["n0"]["metadata"]["labels"][CONFIG] == "seven"
    assert cluster.count("abandoned") == 1
    assert_harmless(cluster)


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_controller_that_ends_after_any_write_is_followed_by_one_that_goes_on(writes):
    cluster = MigCluster()
    cluster.crash_after = writes
    run(cluster, p="3g.20gb")
    assert_settled(cluster)


PROFILES = st.sampled_from([profile.name for profile in A100_40GB.profiles])


@settings(max_examples=by_turns("controller", usual=3, full=30), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 25), PROFILES, st.booleans()), min_size=1, max_size=8),
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(0, 2),
    st.sampled_from([(1,), (2,), (1, 1)]),
)
def test_whatever_happens_no_instance_in_use_goes_and_everything_settles(asked, crashes, failures, cards):
    """Pods come and go, controllers crash, the API server refuses and the MIG manager fails."""

    async def drive():
        cluster = MigCluster(cards=cards)
        for manager in cluster.managers.values():
            manager.fail_next = failures
        for number, (pause, profile, ends) in enumerate(asked):
            cluster.add_pod(f"p{number}", profile)
            if number < len(crashes):
                cluster.crash_after = crashes[number] or None
                cluster.refuse = crashes[number]
            await cluster.run(pause)
            running = [name for name, pod in cluster.pods.items() if "nodeName" in pod["spec"]]
            if ends and running:
                del cluster.pods[running[0]]
        cluster.crash_after, cluster.refuse = None, 0
        await cluster.run(80 * (failures + 1))
        return cluster

    cluster = asyncio.run(drive())
    assert_harmless(cluster)
    free = all("nodeName" not in pod["spec"] for pod in cluster.pods.values())
    assert not (free and cluster.pods), "idle cards, and still every pod waits"
    for manager in cluster.managers.values():
        assert all(names in {(), *full_geometries(A100_40GB)} for names in manager.cards)
