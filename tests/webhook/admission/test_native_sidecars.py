"""A native sidecar (an init container with restartPolicy Always) has the share where its author says so."""

import pytest

from tests.webhook.support import container, decide, pod

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


def test_a_native_sidecar_that_alone_asks_for_a_gpu_gets_it():
    check_share(decide(with_sidecar(inits=[sidecar(limits=GPU)])), "side", ["train"])


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
