"""Pods that only a node's agent limits, on a real control plane: placed where one runs, else refused."""

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.agent_reports import forget, report

POLICY = """
limits: {from: agent}
fractions: {"0.250": 2, "0.500": 4, "1.000": 8}
"""


def card(index, model, mib):
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "model": model,
        "memoryMiB": mib,
        "healthy": True,
        "mig": False,
    }


UNEQUAL = [card(0, "NVIDIA A100-SXM4-40GB", 40960), card(1, "NVIDIA A100-SXM4-80GB", 81920)]


def test_the_scheduler_binds_pods_that_name_a_card_only_where_the_card_of_their_number_is_such_a_one(
    control_plane, namespace, nodes, serve
):
    controller = serve(POLICY)[0]
    said = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    liar, true = nodes(GpuNode(gpus=2, labels=said, cpu="32"), GpuNode(gpus=2, labels=said, cpu="16"))
    report(control_plane, liar, gpus=UNEQUAL)
    report(control_plane, true, gpus=[card(index, "NVIDIA A100-SXM4-80GB", 81920) for index in (0, 1)])
    model = {"clearml-injector/gpu-model": "A100-80"}

    def seen():
        return [gpu.memory_mib for node in controller.ledger().nodes for gpu in node.gpus]

    eventually(lambda: sorted(map(str, seen())) == ["40960", "81920", "81920", "81920"], "cards are known")
    found = []
    for number in range(4):
        made = asked(control_plane, namespace, f"pod-{number}", model, "1.000")
        bound = eventually(lambda made=made: node_of(control_plane, namespace, made), "it is bound or waits")
        found.append((bound, made["metadata"]["annotations"]["clearml-injector/gpu-index"]))
    # Three cards are of the model; who asked last waits, whichever room there is on the other.
    assert sorted(found[:3]) == sorted([(liar, "1"), (true, "0"), (true, "1")])
    assert found[3][0] == "waits"
    forget(control_plane, liar, true)


def asked(control_plane, namespace, name, annotations, fraction="0.500", **options):
    """Create a pod that says what GPU it takes."""
    pod = labelled_pod(name, fraction)
    pod["metadata"]["annotations"] = annotations
    return control_plane.api.create(pod, namespace, **options)


def node_of(control_plane, namespace, made):
    """The node that a pod is bound to, or that it waits as the scheduler found none; None before that."""
    pod = control_plane.api.get("Pod", made["metadata"]["name"], namespace)
    conditions = pod["status"].get("conditions", [])
    waits = any(each.get("reason") == "Unschedulable" for each in conditions)
    return pod["spec"].get("nodeName") or ("waits" if waits else None)
