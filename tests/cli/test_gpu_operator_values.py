"""`gpu-operator-values`: values under which nodes advertise what the policy asks for, or why not."""

import pytest
import yaml

from tests.cli.running import run, write


def operator_values(*arguments):
    result = run("gpu-operator-values", "--gpus", *arguments)
    return result.returncode, result.stdout or result.stderr


def env(part):
    return {variable["name"]: variable["value"] for variable in part["env"]}


def plugin_of(values):
    config = values["devicePlugin"]["config"]
    return yaml.safe_load(config["data"][config["default"]])


def test_per_gpu_values_rename_each_gpu_and_turn_cdi_off():
    code, out = operator_values("3")
    values = yaml.safe_load(out)
    assert (code, values["cdi"]) == (0, {"enabled": False})
    assert env(values["toolkit"])["ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"] == "true"
    assert env(values["devicePlugin"])["DEVICE_LIST_STRATEGY"] == "volume-mounts"
    assert plugin_of(values)["sharing"]["timeSlicing"] == {
        "renameByDefault": False,
        "failRequestsGreaterThanOne": False,
        "resources": [
            {"name": "nvidia.com/gpu", "rename": f"nvidia.com/gpu-{i}", "devices": [str(i)], "replicas": 8}
            for i in range(3)
        ],
    }
    assert env(values["dcgmExporter"]) == {
        "KUBERNETES_VIRTUAL_GPUS": "true",
        "NVIDIA_RESOURCE_NAMES": "nvidia.com/gpu-0,nvidia.com/gpu-1,nvidia.com/gpu-2",
    }


@pytest.mark.parametrize(("more", "renames"), [("", False), (", name: nvidia.com/gpu.shared", True)])
def test_pooled_values_replicate_all_gpus_under_one_name(tmp_path, more, renames):
    policy = f"kind: Policy\nname: default\nslicesPerGpu: 4\nresources: {{mode: pooled{more}}}\n"
    values = yaml.safe_load(operator_values("2", "--policies", write(tmp_path, default=policy))[1])
    assert (values["cdi"], "toolkit" in values) == ({"enabled": True}, False)
    assert "DEVICE_LIST_STRATEGY" not in env(values["devicePlugin"])
    assert plugin_of(values)["sharing"]["timeSlicing"] == {
        "renameByDefault": renames,
        "failRequestsGreaterThanOne": False,
        "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
    }


@pytest.mark.parametrize(
    ("policy", "option", "why"),
    [
        ("limiter: nvidia-driver", (), "limiter nvidia-driver of policy default works with CDI only"),
        ("resources: {mode: dra}", (), "mode dra: cards are offered by a DRA driver"),
        ("resources: {driver: gpu.nvidia.com}", ("--agent",), "mode dra: cards are offered by a DRA driver"),
        (
            "resources: {mode: pooled, name: nvidia.com/slice}",
            (),
            "time slicing advertises nvidia.com/gpu, or",
        ),
        ("resources: {name: 'example.com/gpu-{index}'}", (), "device plugin names begin with nvidia.com/"),
        ("resources: {mode: mig}", ("--agent",), "instances are offered by NVIDIA"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(tmp_path, policy, option, why):
    folder = write(tmp_path, default=f"kind: Policy\nname: default\n{policy}\n")
    code, message = operator_values("1", *option, "--policies", folder)
    assert (code, why in message) == (2, True)


@pytest.mark.parametrize("platform", [(), ("--platform", "openshift")])
def test_mig_values_name_the_config_map_that_the_controller_writes(platform):
    code, out = operator_values("1", "--mig", *platform)
    assert (code, "migManager" in operator_values("1")[1]) == (0, False)
    *first, values = yaml.safe_load_all(out)
    values = values.get("spec", values)
    assert values["mig"] == {"strategy": "mixed"}
    assert values["migManager"]["config"]["name"] == "fraction-injector-mig"
    plugin = yaml.safe_load(first[0]["data"]["slices"]) if first else plugin_of(values)
    for config_map in first:
        config = {"name": values["devicePlugin"]["config"]["name"], "namespace": "nvidia-gpu-operator"}
        assert (config_map["kind"], config_map["metadata"]) == ("ConfigMap", config)
    assert plugin["flags"]["migStrategy"] == "mixed"


def test_instances_are_advertised_as_they_are_for_a_policy_of_mode_mig(tmp_path):
    write(tmp_path, default="kind: Policy\nname: default\nresources: {mode: mig}\n")
    values = yaml.safe_load(operator_values("2", "--policies", tmp_path)[1])
    assert values["mig"] == {"strategy": "mixed"}
    assert plugin_of(values) == {"version": "v1", "flags": {"migStrategy": "mixed"}}


def test_for_the_agents_nodes_the_operators_pods_tolerate_its_taint_and_its_plugin_stays_elsewhere():
    code, out = operator_values("2", "--agent")
    values = yaml.safe_load(out)
    assert (code, values.keys()) == (0, {"cdi", "daemonsets", "dcgmExporter"})
    assert values["cdi"] == {"enabled": True}
    tolerated = {each["key"] for each in values["daemonsets"]["tolerations"]}
    assert tolerated == {"nvidia.com/gpu", "clearml-injector.io/agent-not-ready"}
    assert env(values["dcgmExporter"])["NVIDIA_RESOURCE_NAMES"] == "nvidia.com/gpu-0,nvidia.com/gpu-1"
    assert "kubectl label node NAME nvidia.com/gpu.deploy.device-plugin=false --overwrite" in out
    _, k3s = operator_values("2", "--agent", "--platform", "k3s")
    assert env(yaml.safe_load(k3s)["toolkit"]) == {"CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock"}
    _, openshift = operator_values("2", "--agent", "--platform", "openshift")
    assert yaml.safe_load(openshift) == {"spec": values}


def test_the_agents_nodes_may_have_claims_and_the_others_instances(tmp_path):
    policy = "kind: Policy\nname: default\nresources: {mode: dra, prefer: [mig, dra]}\n"
    code, out = operator_values("2", "--agent", "--mig", "--policies", write(tmp_path, default=policy))
    values = yaml.safe_load(out)
    assert (code, values["mig"], "migManager" in values) == (0, {"strategy": "mixed"}, True)
    assert "kubectl label node NAME nvidia.com/gpu.deploy.device-plugin=false --overwrite" in out
