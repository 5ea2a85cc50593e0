"""Which paths of a node a labelled pod may mount, and which only by leave of its policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.device_keys import HOST_PATHS as NEVER
from policies.model.allowances import HOST_PATHS
from tests.webhook.support import decide, pod, policies
from webhook.admission.host_paths import normalised, protected_place, touches


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("//dev", "/dev"),
        ("/tmp/../dev/nvidia0", "/dev"),  # noqa: S108 a path of a pod, not of this machine
        ("/", "/dev"),
        ("", "/dev"),
        ("dev", "/dev"),
        ("/proc/1/root/dev", "/proc"),
        ("/usr", "/usr/local/vgpu"),
        ("/var/run/cdi", "/run/cdi"),
        ("/var", "/var/lib/kubelet/device-plugins"),
        ("/run/containerd/containerd.sock", "/run/containerd"),
        ("/tmp", "/tmp/nvidia-mps"),  # noqa: S108 a path of a pod, not of this machine
        ("//etc/./kubernetes/pki/", "/etc/kubernetes"),
        ("/var/lib/kubelet/pods", "/var/lib/kubelet"),
        ("/dev/infiniband/uverbs0", "/dev/infiniband"),
        ("/dev/infiniband2", "/dev"),
        *((path, None) for path in ("/dev/shm", "//dev/./shm/", "/dev/shm/job")),  # noqa: S108 of a pod too
    ],
)
def test_host_paths_that_reach_gpus_runtimes_or_shared_memory_are_denied(path, place):
    decided = decide(pod(volumes=[{"name": "host", "hostPath": {"path": path}}]))
    advice = ", or ask the admin to set allow.hostPaths" if place in HOST_PATHS else ""
    rule = f"exposes {place} and bypasses the share: remove the volume{advice}"
    if place is None:
        rule = "is shared memory of the node: use an emptyDir with medium: Memory"
    assert decided.code == "host-path"
    assert decided.message == f'volume "host": hostPath {path} {rule}'


@pytest.mark.parametrize("place", HOST_PATHS)
def test_a_policy_opens_one_place_of_the_node_at_a_time(place):
    volumes = [{"name": "host", "hostPath": {"path": f"{place}/x"}}]
    for allowed in HOST_PATHS:
        decided = decide(pod(volumes=volumes), policies(f"allow: {{hostPaths: [{allowed}]}}"))
        assert decided.code == ("injected" if allowed == place else "host-path")


SHUT = ("/var/lib/kubelet", "/var/lib/kubelet/device-plugins", "/var/lib/k0s/kubelet/device-plugins")


@pytest.mark.parametrize("path", [*SHUT, "/var", "/dev", "/dev/nvidia0", "/"])
def test_no_policy_opens_the_places_below_an_open_one_that_are_always_shut(path):
    found = pod(volumes=[{"name": "host", "hostPath": {"path": path}}])
    assert decide(found, policies(f"allow: {{hostPaths: [{', '.join(HOST_PATHS)}]}}")).code == "host-path"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/srv/agent/library/x", "/srv/agent"),
        ("/srv", "/srv/agent"),
        ("//srv/./agent/", "/srv/agent"),
        ("/var/run/other.sock", "/run/other.sock"),
        ("/srv/agent2", None),
    ],
)
def test_a_policy_shuts_further_places(path, place):
    shut = policies("protectedHostPaths: [/srv/agent, /var/run/other.sock]")
    decided = decide(pod(volumes=[{"name": "host", "hostPath": {"path": path}}]), shut)
    assert decided.code == ("injected" if place is None else "host-path")
    assert place is None or f"hostPath {path} exposes {place} and" in decided.message


FURTHER = ("/srv/agent", "/x/dev/lib/run/kubelet/etc")
PARTS = sorted({part for place in (*NEVER, *HOST_PATHS, *FURTHER) for part in place.split("/")} | {"."})


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("/".join))
def test_a_path_is_protected_if_it_touches_a_place_and_only_then(path):
    places = (*NEVER, *HOST_PATHS, *FURTHER)
    touched = any(touches(normalised(path), place) for place in places)
    assert (protected_place(path, further=FURTHER) is not None) is touched
