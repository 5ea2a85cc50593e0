"""A native sidecar (an init container with restartPolicy Always) has the share where its author says so."""

import pytest

from tests.webhook.support import container, decide, pod
from tests.webhook.support.gpu_pods import limits

GPU = {"nvidia.com/gpu": "1"}
NAMED = {"clearml-injector/container": "side"}
DIVIDED = {"clearml-injector/containers": "train=0.250,side=0.250"}
SIDE, ASKING = (container("side", restartPolicy="Always", limits=each) for each in (None, GPU))
WARM = container("warm", limits=GPU)


def with_inits(*inits, annotations):
    return pod(initContainers=inits, metadata={"annotations": annotations})


@pytest.mark.parametrize(("side", "annotations"), [(SIDE, NAMED), (ASKING, {})], ids=["named", "asks alone"])
def test_a_native_sidecar_that_is_named_or_asks_alone_gets_the_share(side, annotations):
    decided = decide(with_inits(side, annotations=annotations))
    assert decided.annotations["clearml-injector/gpu-container"] == "side"
    assert limits(decided, "side") == {"nvidia.com/gpu-0": "4"}
    assert dict(decided.env("side"))["CUDA_DEVICE_MEMORY_LIMIT_0"]
    assert decided.env("train") == [("NVIDIA_VISIBLE_DEVICES", "void")]
    assert decided.spec["initContainers"][0]["name"] == "gpu-limiter"


@pytest.mark.parametrize("annotations", [NAMED, {}])
def test_an_init_container_that_asks_before_the_sidecar_gets_the_same_share(annotations):
    decided = decide(with_inits(WARM, ASKING, annotations=annotations))
    assert limits(decided, "warm") == limits(decided, "side") == {"nvidia.com/gpu-0": "4"}


@pytest.mark.parametrize("annotations", [NAMED, {}, DIVIDED])
def test_an_init_container_that_asks_while_the_sidecar_runs_is_one_too_many(annotations):
    decided = decide(with_inits(ASKING, WARM, annotations=annotations))
    assert decided.code == "several-gpu-containers"
    assert decided.message == ('containers "side" and "warm" both request a GPU: remove one of the requests')
