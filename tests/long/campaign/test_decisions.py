"""A short campaign, and proof that its oracle sees every way past a share."""

import copy

import pytest

from tests.long.campaign import tampering
from tests.long.campaign.decisions import EIGHTHS, INSTANCE_POLICIES, run
from tests.long.campaign.instances import ledger_of_instances, policies_of
from tests.long.campaign.oracle import Expected, faults, faults_of_either
from tests.webhook.support import Webhook, container, decide, pod


def test_a_short_campaign_of_hostile_reviews_finds_nothing():
    tally, findings = run(4000, seed=20)
    assert findings == []
    assert tally.codes["injected"] > 300
    assert tally.codes["unchanged"] > 300
    assert len(tally.codes) > 15


def test_a_short_campaign_where_policies_give_mig_instances_finds_nothing():
    tally, findings = run(2400, seed=21, settings=INSTANCE_POLICIES)
    assert findings == []
    assert tally.codes["injected"] > 200
    assert tally.codes["unchanged"] > 200


@pytest.fixture(scope="module")
def stored():
    asking = {"nvidia.com/gpu": "1"}
    made = pod(
        initContainers=[container("warm", limits=asking)],
        containers=[container(limits=asking), container("side")],
    )
    return decide(made).stored


def found_in(stored):
    return list(faults(stored, Expected(EIGHTHS)))


def test_the_oracle_has_nothing_against_a_genuine_injection(stored):
    assert found_in(stored) == []


def with_env(stored, which, name, value):
    one = {each["name"]: each for each in tampering.containers_of(stored)}[which]
    one.setdefault("env", []).append({"name": name, "value": value})


def with_mount(stored, which, **mount):
    one = {each["name"]: each for each in tampering.containers_of(stored)}[which]
    one.setdefault("volumeMounts", []).append(mount)


def with_field(stored, which, name, value):
    one = {each["name"]: each for each in tampering.containers_of(stored)}[which]
    one[name] = value


def with_amounts(stored, amounts):
    with_field(stored, "train", "resources", {"limits": amounts, "requests": amounts})


LIBRARY = "gpu-limiter-library"
WAYS = {
    "another slices annotation": lambda pod: pod["metadata"]["annotations"].update(
        {"clearml-injector/slices": "1"}
    ),
    "another memory annotation": lambda pod: pod["metadata"]["annotations"].update(
        {"clearml-injector/memory-mib": "1"}
    ),
    "CDI": lambda pod: pod["metadata"]["annotations"].update({"cdi.k8s.io/x": "nvidia.com/gpu=all"}),
    "CDI by the bare name": lambda pod: pod["metadata"]["annotations"].update({"nvidia.cdi.k8s.io": "all"}),
    "an NRI plugin's devices": lambda pod: pod["metadata"]["annotations"].update({"devices.nri.io/pod": "x"}),
    "the node's memory": lambda pod: pod["spec"].update({"hostIPC": True}),
    "a library before ours": lambda pod: with_env(pod, "train", "LD_AUDIT", "/evil.so"),
    "a raised limit": lambda pod: with_env(pod, "train", "CUDA_DEVICE_MEMORY_LIMIT_0", "99999m"),
    "a switched-off limiter": lambda pod: with_env(pod, "warm", "CUDA_DISABLE_CONTROL", "1"),
    "another library first": lambda pod: with_env(pod, "train", "LD_PRELOAD", "/evil.so"),
    "a second container that sees GPUs": lambda pod: with_env(pod, "side", "NVIDIA_VISIBLE_DEVICES", "all"),
    "a second container that asks for a GPU": lambda pod: with_field(
        pod, "side", "resources", {"limits": {"nvidia.com/gpu-1": "1"}}
    ),
    "another image of ours": lambda pod: with_field(pod, "gpu-limiter", "image", "evil"),
    "a path in ours": lambda pod: with_env(pod, "gpu-limiter", "PATH", "/evil"),
    "a source mounted into ours": lambda pod: with_mount(
        pod,
        "gpu-limiter",
        name="data",
        mountPath="/var/run/secrets/../../../k8s-vgpu/lib/nvidia",
        readOnly=True,
    ),
    "another writer of the library": lambda pod: with_mount(pod, "side", name=LIBRARY, mountPath="/data"),
    "a library of another kind": lambda pod: pod["spec"]["volumes"][0].update({"emptyDir": None, "nfs": {}}),
    "a mount over the library": lambda pod: with_mount(
        pod, "train", name="data", mountPath="/usr/local/vgpu/libvgpu.so"
    ),
    "a privileged container": lambda pod: with_field(pod, "train", "securityContext", {"privileged": True}),
    "a capability": lambda pod: with_field(
        pod, "train", "securityContext", {"capabilities": {"add": ["cap_sys_admin"]}}
    ),
    "a file that overrides": lambda pod: with_mount(pod, "train", name="data", mountPath="//overrideEnv"),
    "a device list": lambda pod: with_mount(
        pod, "side", name="data", mountPath="/var/run/nvidia-container-devices/all"
    ),
    "a path of the node": lambda pod: pod["spec"]["volumes"].append(
        {"name": "x", "hostPath": {"path": "/etc"}}
    ),
    "the agent's folder": lambda pod: pod["spec"]["volumes"].append(
        {"name": "x", "hostPath": {"path": "/var/lib/clearml-injector"}}
    ),
    "ours too late": lambda pod: pod["spec"]["initContainers"].reverse(),
    "a node of other memory": lambda pod: pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"].append(
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}
    ),
    "a container twice": lambda pod: pod["spec"]["containers"].append(container("side")),
}


ONE, TWO = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"
INSTANCE_WAYS = {
    "another instance": lambda pod: with_amounts(pod, {TWO: "1"}),
    "two instances": lambda pod: with_amounts(pod, {ONE: "2"}),
    "slices next to it": lambda pod: with_amounts(pod, {ONE: "1", "nvidia.com/gpu-0": "1"}),
    "a whole GPU": lambda pod: with_amounts(pod, {"nvidia.com/gpu": "1"}),
    "an instance for a second container": lambda pod: with_field(
        pod, "side", "resources", {"limits": {ONE: "1"}}
    ),
    "another slices annotation": lambda pod: pod["metadata"]["annotations"].update(
        {"clearml-injector/slices": "2"}
    ),
    "a second container that sees GPUs": WAYS["a second container that sees GPUs"],
    "no models": lambda pod: pod["spec"].pop("affinity"),
    "CDI": WAYS["CDI"],
}


@pytest.mark.parametrize("way", [None, *INSTANCE_WAYS])
def test_the_oracle_sees_of_an_instance(way):
    found = pod(fraction="0.125", containers=[container(limits={"nvidia.com/gpu": "1"}), container("side")])
    made = Webhook(policies_of("mig"), ledger_of_instances()).decide(found).stored
    INSTANCE_WAYS.get(way, lambda _: None)(made)
    assert bool(list(faults_of_either(made, Expected(EIGHTHS)))) is (way is not None)


@pytest.mark.parametrize("way", WAYS)
def test_the_oracle_sees(way, stored):
    tampered = copy.deepcopy(stored)
    WAYS[way](tampered)
    assert found_in(tampered) != []
