"""What containers use by the driver's counters: their control groups, and what the driver says of each."""

import pytest

from agent.containers import ContainerName
from agent.driver_counters import DriverCounters, groups_of_containers
from agent.gpu import Gpu
from agent.shares import Share
from testbed.nvidia.cards import LIMITS_OFFERED, CountedGroup
from tests.agent.support.node import card, node_folder

FIRST, SECOND, THIRD = "a" * 64, "b" * 64, "c" * 64
UID = "0123abcd-0000-1111-2222-333344445555"
BY_SYSTEMD = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{FIRST}.scope"
LAYOUTS = {
    "systemd": BY_SYSTEMD,
    "cgroupfs": f"kubepods/burstable/pod{UID}/{FIRST}",
    "below the kubelet's own": f"kubelet.slice/kubelet-{BY_SYSTEMD}",
}
GPU = Gpu(0, "GPU-0", "NVIDIA A100", 40960)
HALF = Share(GPU, 4, 20480)
TRAIN, REST, NEW = (ContainerName("work", name, "main") for name in ("train", "rest", "new"))
WARNING = "the driver does not say what some containers use"


@pytest.mark.parametrize("path", LAYOUTS.values(), ids=LAYOUTS)
def test_a_containers_group_is_found_wherever_the_kubelet_makes_it(tmp_path, path):
    (tmp_path / path).mkdir(parents=True)
    (tmp_path / "system.slice" / f"docker-{SECOND}.scope").mkdir(parents=True)
    [found] = groups_of_containers(tmp_path).values()
    assert (found.id.id, found.id.pod_uid, found.path) == (FIRST, UID, tmp_path / path)


def test_the_group_of_a_process_that_watches_a_container_is_not_the_containers(tmp_path):
    pod = tmp_path / "kubepods.slice" / f"kubepods-pod{UID.replace('-', '_')}.slice"
    for name in (f"crio-conmon-{FIRST}.scope", f"crio-{FIRST}.scope", f"crio-conmon-{SECOND}.scope"):
        (pod / name).mkdir(parents=True)
    assert [each.path.name for each in groups_of_containers(tmp_path).values()] == [f"crio-{FIRST}.scope"]


def test_a_group_that_a_container_makes_in_its_own_is_nobodys(tmp_path):
    (tmp_path / BY_SYSTEMD / "kubepods" / f"cri-containerd-{SECOND}.scope").mkdir(parents=True)
    assert groups_of_containers(tmp_path).keys() == {FIRST}


def test_so_many_groups_are_looked_at_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.driver_counters.MAX_GROUPS", 3)
    for name in (FIRST, SECOND, THIRD):
        (tmp_path / "kubepods" / name).mkdir(parents=True)
    assert len(groups_of_containers(tmp_path)) == 2, "the folder above them counts, too"


def test_there_are_no_groups_without_control_groups(tmp_path):
    assert groups_of_containers(tmp_path / "none") == {}


@pytest.fixture
def node():
    with node_folder() as node:
        (node.root / "logs").mkdir()
        (node.root / "cgroup").mkdir()
        node.write_gpus(card(0))
        yield node


def add(node, container, name=TRAIN):
    """A container's control group, and the link to its log."""
    (node.root / "cgroup" / "kubepods" / f"pod{UID}" / container).mkdir(parents=True)
    add_log(node, container, name)


def add_log(node, container, name):
    """The kubelet's link to a container's log."""
    (node.root / "logs" / f"{name.pod}_{name.namespace}_{name.container}-{container}.log").touch()


def seen(node, *names):
    """MiB and the pod's UID of each share that the driver counts, measured twice."""
    source = node.open_driver()
    counters = DriverCounters(source, node.root / "logs", node.root / "cgroup")
    shares = [(name, HALF) for name in names]
    counters.seen(shares)
    found = counters.seen(shares)
    source.close()
    return [(use.name, use.used_mib, use.busy_percent, use.pod_uid) for use in found]


def test_a_container_uses_what_the_driver_counts_for_its_group(node, capfd):
    add(node, FIRST)
    node.write_gpus(card(0, groups=(CountedGroup(FIRST, 4096),)), limits=LIMITS_OFFERED)
    assert seen(node, TRAIN) == [(TRAIN, 4096, None, UID)]
    assert WARNING not in capfd.readouterr().err


def test_an_ended_container_of_which_only_the_log_is_left_is_not_asked_for(node):
    add(node, FIRST)
    add_log(node, SECOND, TRAIN)
    counted = CountedGroup(FIRST, 4096), CountedGroup(SECOND, 100)
    node.write_gpus(card(0, groups=counted), limits=LIMITS_OFFERED)
    assert seen(node, TRAIN) == [(TRAIN, 4096, None, UID)]


def test_a_container_is_said_to_use_nothing_only_if_the_driver_says_so(node):
    add(node, FIRST)
    add(node, SECOND, REST)
    node.write_gpus(card(0, groups=(CountedGroup(FIRST, 0),)), limits=LIMITS_OFFERED)
    assert seen(node, TRAIN, REST, NEW) == [(TRAIN, 0, None, UID)]


def test_an_older_driver_counts_nothing_and_the_log_says_once_why(node, capfd):
    add(node, FIRST)
    assert seen(node, TRAIN) == []
    assert capfd.readouterr().err.count(WARNING) == 1


def test_without_control_groups_of_version_2_the_log_says_once_that_there_are_none(node, capfd):
    """With version 1 the folder has one for each controller."""
    add_log(node, FIRST, TRAIN)
    (node.root / "cgroup" / "memory" / "kubepods" / f"pod{UID}" / FIRST).mkdir(parents=True)
    assert seen(node, TRAIN) == []
    said = capfd.readouterr().err
    assert said.count(WARNING) == 1
    assert f"{node.root / 'cgroup'} has no control groups of containers, of version 2" in said


def test_a_container_that_ends_while_it_is_measured_is_no_fault_of_the_driver(node, capfd):
    add(node, FIRST)
    add(node, SECOND)

    class Driver:
        def used_by_group(self, uuid, group):
            assert uuid == GPU.uuid
            if group.name == SECOND:
                return 4096
            group.rmdir()
            return None

    counters = DriverCounters(Driver(), node.root / "logs", node.root / "cgroup")
    assert [use.used_mib for use in counters.seen([(TRAIN, HALF)])] == [4096]
    add(node, FIRST)
    assert [use.used_mib for use in counters.seen([(TRAIN, HALF)])] == [4096]
    assert WARNING not in capfd.readouterr().err
