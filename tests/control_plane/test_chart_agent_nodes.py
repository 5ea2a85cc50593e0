"""Which nodes the agent's DaemonSet covers, also while the GPU operator pauses the driver's clients."""

import json

from controller.watch.agent_coverage import Coverage, read_agent_pods

CLIENT = "nvidia.com/gpu.deploy.client"
GPU = {"nvidia.com/gpu.present": "true"}
PAUSED = (
    "paused-for-driver-upgrade",
    "paused-for-mig-change",
    "paused-for-mig-change_paused-for-driver-upgrade",
    "false",
)
ZONES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["extra"]}]},
            ]
        }
    }
}


def demands_of(helm, **agent):
    """What the DaemonSet's pods demand of a node, and what the controller gets of it."""
    objects = helm.rendered({"agent": {"enabled": True, **agent}})
    [daemons] = [each for each in objects if each["kind"] == "DaemonSet"]
    [controller] = [
        each
        for each in objects
        if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("-controller")
    ]
    arguments = controller["spec"]["template"]["spec"]["containers"][0]["args"]
    [given] = [each.removeprefix("--agent-pods=") for each in arguments if each.startswith("--agent-pods=")]
    return daemons["spec"]["template"]["spec"], json.loads(given)


def covers(helm, labels, name="node", **agent):
    """Whether a node gets an agent, of which DaemonSet and controller must think the same."""
    coverages = [Coverage(read_agent_pods(json.dumps(each))) for each in demands_of(helm, **agent)]
    pods, given = [each.covers(name, labels, ()) for each in coverages]
    assert pods == given
    return pods


def test_a_cluster_without_the_label_of_the_gpu_operator_has_agents(helm):
    assert covers(helm, GPU)
    assert not covers(helm, {})


def test_an_agent_leaves_a_node_while_the_gpu_operator_pauses_clients_of_the_driver(helm):
    assert covers(helm, {**GPU, CLIENT: "true"})
    assert not [value for value in PAUSED if covers(helm, {**GPU, CLIENT: value})]


def test_an_admins_own_affinity_holds_in_addition_to_that(helm):
    assert covers(helm, {**GPU, "zone": "a"}, affinity=ZONES)
    assert covers(helm, {**GPU, "zone": "a", CLIENT: "true"}, affinity=ZONES)
    assert covers(helm, {**GPU, "zone": "b"}, name="extra", affinity=ZONES)
    assert not covers(helm, {**GPU, "zone": "b"}, affinity=ZONES)
    assert not covers(helm, {**GPU, "zone": "a", CLIENT: PAUSED[0]}, affinity=ZONES)
    assert not covers(helm, {**GPU, CLIENT: PAUSED[0]}, name="extra", affinity=ZONES)


def test_the_gpu_operator_waits_for_agents_where_the_values_say_that_it_is_there(helm):
    # Driver manager and MIG manager wait for pods of DaemonSets with this key in their nodeSelector.
    pod, _ = demands_of(helm, gpuOperator=True)
    assert pod["nodeSelector"] == {**GPU, CLIENT: "true"}
    assert covers(helm, {**GPU, CLIENT: "true"}, gpuOperator=True)
    assert not [value for value in PAUSED if covers(helm, {**GPU, CLIENT: value}, gpuOperator=True)]
    assert not covers(helm, GPU, gpuOperator=True)
