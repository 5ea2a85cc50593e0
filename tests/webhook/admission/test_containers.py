"""Steps "container" and "others": the GPU's container is chosen by name and by what it asks for."""

import pytest

from tests.webhook.support import container, decide, pod, policies

GPU = {"nvidia.com/gpu": "1"}
ANNOTATION = {"clearml-injector/container": "main"}


def test_the_annotation_goes_before_a_container_named_like_the_pod():
    found = pod(containers=[container("task"), container("main")])
    found["metadata"]["annotations"] = ANNOTATION
    assert decide(found).annotations["clearml-injector/gpu-container"] == "main"


@pytest.mark.parametrize("wanted", ["mian", "", "init"])
def test_the_annotation_must_name_a_regular_container(wanted):
    found = pod(containers=[container("a"), container("b")], initContainers=[container("init")])
    found["metadata"]["annotations"] = {"clearml-injector/container": wanted}
    decided = decide(found)
    assert decided.code == "container-unknown"
    assert decided.message == (
        f'annotation clearml-injector/container: the pod has no container "{wanted}": use a, b'
    )


def test_the_annotation_does_not_let_another_container_ask_for_a_gpu():
    found = pod(containers=[container("a", limits=GPU), container("main")])
    found["metadata"]["annotations"] = ANNOTATION
    decided = decide(found)
    assert decided.code == "several-gpu-containers"
    assert decided.message == (
        'container "a" requests nvidia.com/gpu, but the share is for container "main": remove it from the'
        " container, or divide the share in clearml-injector/containers"
    )


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "clear.ml/fraction-1"])
def test_the_one_that_asks_for_a_gpu_is_chosen(resource):
    amount = "500m" if resource.startswith("clear.ml") else "1"
    found = pod(containers=[container("task"), container("b", limits={resource: amount})])
    assert decide(found).annotations["clearml-injector/gpu-container"] == "b"


@pytest.mark.parametrize("name", ["task", "clearml-id-7", "clearml-id-"])
def test_the_one_named_like_the_pod_or_the_task_is_chosen(name):
    found = pod(containers=[container("istio-proxy"), container(name)])
    assert decide(found).annotations["clearml-injector/gpu-container"] == name


def test_the_policy_names_what_to_look_for():
    found = pod(containers=[container("proxy"), container("notebook")])
    decided = decide(found, policies("container: {names: [note*]}"))
    assert decided.annotations["clearml-injector/gpu-container"] == "notebook"


@pytest.mark.parametrize("names", [("a", "b"), ("clearml-id-1", "clearml-id-2"), ("task", "clearml-id-2")])
def test_where_none_or_several_could_be_meant_the_denial_names_the_annotation(names):
    decided = decide(pod(containers=[container(name) for name in names]))
    assert decided.code == "container-ambiguous"
    assert decided.message == (
        "several containers could get the GPU: name one in the annotation clearml-injector/container"
        f" ({', '.join(names)})"
    )


def test_a_name_is_no_pattern():
    found = pod(containers=[container("a"), container("b")], metadata={"name": "*"})
    assert decide(found).code == "container-ambiguous"


def test_a_native_sidecar_that_asks_in_addition_to_the_container_that_asks_is_denied():
    sidecar = container("side", limits=GPU, restartPolicy="Always")
    decided = decide(pod(containers=[container(limits=GPU)], initContainers=[sidecar]))
    assert decided.code == "several-gpu-containers"
    assert decided.message == (
        'containers "train" and "side" both request a GPU: remove one of the requests, or divide the'
        " share in clearml-injector/containers"
    )
