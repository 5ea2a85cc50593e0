"""A native sidecar (an init container with restartPolicy Always) has the share where its author says so."""

import pytest

from ledger.ledger import Ledger
from modes.facts import NodeFact
from tests.ledger.cluster import gpu_node
from tests.webhook.admission.test_instances import A100_80, ONE
from tests.webhook.admission.test_instances import node as mig_node
from tests.webhook.support import Webhook, container, decide, named, pod, policies

GPU = {"nvidia.com/gpu": "1"}
OURS = "clearml-injector/"


def sidecar(name="side", **fields):
    return container(name, restartPolicy="Always", **fields)


def with_sidecar(annotations=None, inits=None, **fields):
    return pod(initContainers=inits or [sidecar()], metadata={"annotations": annotations or {}}, **fields)


def limits(decided, name):
    return decided.container(name).get("resources", {}).get("limits")


def check_share(decided, name, others):
    assert decided.annotations[OURS + "gpu-container"] == name
    assert limits(decided, name) == {"nvidia.com/gpu-0": "4"}
    assert dict(decided.env(name))["CUDA_DEVICE_MEMORY_LIMIT_0"]
    for other in others:
        assert decided.env(other) == [("NVIDIA_VISIBLE_DEVICES", "void")]
    assert decided.spec["initContainers"][0]["name"] == "gpu-limiter"


def test_the_annotation_may_name_a_native_sidecar():
    check_share(decide(with_sidecar({OURS + "container": "side"})), "side", ["train"])


def test_the_annotation_may_name_no_init_container_that_ends():
    decided = decide(with_sidecar({OURS + "container": "setup"}, [container("setup"), sidecar()]))
    assert (decided.code, decided.message) == (
        "container-unknown",
        'annotation clearml-injector/container: the pod has no container "setup": use train, side',
    )


def test_a_native_sidecar_that_alone_asks_for_a_gpu_gets_it():
    check_share(decide(with_sidecar(inits=[sidecar(limits=GPU)])), "side", ["train"])


def test_with_several_containers_that_do_not_ask_it_gets_it_too():
    found = with_sidecar(inits=[sidecar(limits=GPU)], containers=[container("a"), container("b")])
    check_share(decide(found), "side", ["a", "b"])


def test_two_native_sidecars_that_ask_are_denied():
    decided = decide(with_sidecar(inits=[sidecar("one", limits=GPU), sidecar("two", limits=GPU)]))
    assert decided.code == "several-gpu-containers"
    assert decided.message.startswith('containers "one" and "two" both request a GPU')


def test_a_native_sidecar_that_does_not_ask_is_no_candidate():
    decided = decide(with_sidecar())
    assert decided.annotations[OURS + "gpu-container"] == "train"


def test_a_native_sidecar_shares_with_the_task_where_the_annotation_says_how():
    found = with_sidecar({OURS + "containers": "train=0.250,side=0.250"})
    decided = decide(found)
    assert decided.annotations[OURS + "gpu-container"] == "train,side"
    assert limits(decided, "train") == limits(decided, "side") == {"nvidia.com/gpu-0": "2"}
    each = decided.annotations[OURS + "memory-mib"].split(",")
    assert dict(decided.env("side"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{each[1]}m"


def test_both_ask_and_the_annotation_says_how_they_share():
    found = with_sidecar({OURS + "containers": "train=0.375,side=0.125"}, [sidecar(limits=GPU)])
    found["spec"]["containers"] = [container(limits=GPU)]
    decided = decide(found)
    assert limits(decided, "train") == {"nvidia.com/gpu-0": "3"}
    assert limits(decided, "side") == {"nvidia.com/gpu-0": "1"}


def test_the_parts_of_a_native_sidecar_may_be_memory():
    found = pod(fraction=None, labels={OURS + "gpu-memory": "6Gi"}, initContainers=[sidecar()])
    found["metadata"]["annotations"] = {OURS + "containers": "train=4Gi,side=2Gi"}
    assert dict(decide(found).env("side"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2048m"


def test_the_parts_of_a_native_sidecar_may_lie_on_another_gpu():
    ledger = Ledger()
    ledger.set_node(gpu_node("a", 2))
    apart = policies("containers: any-gpu")
    webhook = Webhook(apart, ledger)
    for number, fraction in enumerate(["0.500", "0.750"]):
        webhook.decide(pod(fraction=fraction), uid=f"{number}")
    found = with_sidecar({OURS + "containers": "train=0.500,side=0.250"}, fraction="0.750")
    decided = webhook.decide(found, uid="apart")
    assert limits(decided, "train") == {"nvidia.com/gpu-0": "4"}
    assert limits(decided, "side") == {"nvidia.com/gpu-1": "2"}


@pytest.mark.parametrize("annotations", [{OURS + "container": "side"}, {}])
def test_an_init_container_that_asks_before_the_sidecar_gets_the_same_share(annotations):
    inits = [container("warm", limits=GPU), sidecar(limits=GPU)]
    decided = decide(with_sidecar(annotations, inits))
    assert limits(decided, "warm") == limits(decided, "side") == {"nvidia.com/gpu-0": "4"}


@pytest.mark.parametrize(
    "annotations", [{OURS + "container": "side"}, {}, {OURS + "containers": "train=0.250,side=0.250"}]
)
def test_an_init_container_that_asks_while_the_sidecar_runs_is_one_too_many(annotations):
    decided = decide(with_sidecar(annotations, [sidecar(limits=GPU), container("warm", limits=GPU)]))
    assert decided.code == "several-gpu-containers"
    assert decided.message == ('containers "side" and "warm" both request a GPU: remove one of the requests')


def test_what_a_native_sidecar_holds_is_counted_once():
    ledger = Ledger()
    ledger.set_node(gpu_node("a", 1))
    webhook = Webhook(None, ledger)
    stored = webhook.decide(with_sidecar({OURS + "container": "side"})).stored
    assert [gpu.used for gpu in ledger.node("a").gpus] == [4]
    assert named(stored["spec"]["initContainers"], "side")["restartPolicy"] == "Always"


def test_a_privileged_native_sidecar_with_the_share_is_denied():
    privileged = sidecar(securityContext={"privileged": True})
    assert decide(with_sidecar({OURS + "container": "side"}, [privileged])).code == "privileged"
    assert decide(with_sidecar(inits=[privileged])).allowed


@pytest.mark.parametrize(
    ("mode", "node", "resource", "amount"),
    [
        (
            "pooled",
            NodeFact(
                name="p", labels={"nvidia.com/gpu.memory": "81920"}, pooled=8, pooled_gpus=1, gpu_mib=81920
            ),
            "nvidia.com/gpu",
            "1",
        ),
        ("mig", mig_node("m", A100_80, (ONE, 3)), ONE, "1"),
    ],
)
def test_in_other_modes_it_gets_what_the_container_would(mode, node, resource, amount):
    ledger = Ledger()
    ledger.set_node(node)
    webhook = Webhook(policies(f"resources: {{mode: {mode}}}"), ledger)
    decided = webhook.decide(with_sidecar({OURS + "container": "side"}, fraction="0.125"))
    assert limits(decided, "side") == {resource: amount}
    assert limits(decided, "train") is None
