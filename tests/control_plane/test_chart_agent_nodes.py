"""Which nodes the agent's DaemonSet covers, also while the GPU operator pauses the driver's clients."""

import json

import pytest

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


ZONED, OPERATOR = {"affinity": ZONES}, {"gpuOperator": True}
CLIENTS = {**GPU, CLIENT: "true"}
CASES = {
    "a cluster without the label of the GPU operator": [({}, GPU, True), ({}, {}, False)],
    "the GPU operator pauses clients of the driver": [
        ({}, CLIENTS, True),
        *(({}, {**GPU, CLIENT: value}, False) for value in PAUSED),
    ],
    "an admin's own affinity in addition": [
        (ZONED, {**GPU, "zone": "a"}, True),
        (ZONED, {**CLIENTS, "zone": "a"}, True),
        (ZONED, {**GPU, "zone": "b"}, False),
        (ZONED, {**GPU, "zone": "a", CLIENT: PAUSED[0]}, False),
        (ZONED, {**GPU, "name": "extra"}, True),
        (ZONED, {**GPU, CLIENT: PAUSED[0], "name": "extra"}, False),
    ],
    "values that say that the GPU operator is there": [
        (OPERATOR, CLIENTS, True),
        (OPERATOR, GPU, False),
        *((OPERATOR, {**GPU, CLIENT: value}, False) for value in PAUSED),
    ],
}
"""Values of the agent, labels and perhaps the name of a node, and whether it gets an agent."""


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
def test_a_node_gets_an_agent_by_daemonset_and_controller_alike(helm, cases):
    for values, labels, wanted in cases:
        demands = demands_of(helm, **values)
        coverages = [Coverage(read_agent_pods(json.dumps(each))) for each in demands]
        name = labels.get("name", "node")
        assert [each.covers(name, labels, ()) for each in coverages] == [wanted] * 2, labels
    # Driver manager and MIG manager wait for pods of DaemonSets with this key in their nodeSelector.
    assert (CLIENT in demands[0]["nodeSelector"]) is (values == OPERATOR)
