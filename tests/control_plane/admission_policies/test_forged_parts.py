"""With the webhook's configuration deleted: pods that claim shares of several GPUs or containers."""

import copy

import pytest

from tests.control_plane.admission_policies.forged import (
    ADVICE,
    APART,
    BY_MEMORY,
    EACH_GPU,
    ENV,
    PARTS,
    index_of,
    limits,
    said,
    task,
    variable,
)
from tests.control_plane.admission_policies.support import refused


def test_halves_of_two_gpus_pass_as_the_webhook_left_them(no_webhook, control_plane):
    pod = no_webhook["halves"]
    assert len(task(pod)["resources"]["limits"]) == len(index_of(pod).split(",")) == 2
    control_plane.api.create(pod, "lock-default", dry_run=True)


@pytest.mark.parametrize("change", ["absent", "larger", "twice"])
def test_a_second_gpu_without_its_limit_is_refused(no_webhook, control_plane, change):
    pod = copy.deepcopy(no_webhook["halves"])
    second, env = variable(pod, "CUDA_DEVICE_MEMORY_LIMIT_1"), task(pod)["env"]
    if change == "absent":
        env.remove(second)
    elif change == "twice":
        env.append(dict(second))
    else:
        second["value"] = "999999m"
    with refused("injected", EACH_GPU):
        control_plane.api.create(pod, "lock-default")


def test_halves_that_stand_on_one_gpu_are_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["halves"])
    said(pod)["clearml-injector/gpu-index"] = "0"
    task(pod)["resources"] = {"limits": {"nvidia.com/gpu-0": "8"}}
    with refused("injected", limits(8, "nvidia.com/gpu-0")):
        control_plane.api.create(pod, "lock-default")


def test_containers_that_share_a_gpu_pass_as_the_webhook_left_them(no_webhook, control_plane):
    pod = no_webhook["shared"]
    amounts = [list(each["resources"]["limits"].values()) for each in pod["spec"]["containers"]]
    assert amounts == [["4"], ["2"]]
    control_plane.api.create(pod, "lock-default", dry_run=True)


@pytest.mark.parametrize("change", ["limits", "memory", "both"])
def test_containers_that_exchange_their_parts_are_refused(no_webhook, control_plane, change):
    pod = copy.deepcopy(no_webhook["shared"])
    train, evaluate = pod["spec"]["containers"]
    if change != "memory":
        train["resources"], evaluate["resources"] = evaluate["resources"], train["resources"]
    if change != "limits":
        train["env"], evaluate["env"] = evaluate["env"], train["env"]
    message = ENV if change == "memory" else limits(6, f"nvidia.com/gpu-{index_of(pod)}")
    with refused("injected", message):
        control_plane.api.create(pod, "lock-default")


def test_parts_that_come_to_other_slices_than_the_label_are_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["shared"])
    said(pod)["clearml-injector/containers"] = "train=0.500,eval=0.500"
    pod["spec"]["containers"][1]["resources"] = {"limits": {f"nvidia.com/gpu-{index_of(pod)}": "4"}}
    with refused("injected", PARTS):
        control_plane.api.create(pod, "lock-default")


def test_memory_that_containers_share_passes_as_the_webhook_left_it(no_webhook, control_plane):
    pod = no_webhook["shared-memory"]
    assert said(pod)["clearml-injector/memory-mib"] == "4096,2048"
    control_plane.api.create(pod, "lock-default", dry_run=True)


def test_more_memory_of_one_container_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["shared-memory"])
    said(pod)["clearml-injector/containers"] = "train=5Gi,eval=2Gi"
    slices = said(pod)["clearml-injector/slices"]
    message = f"clearml-injector/slices: {slices} is not what the label says: 6Gi: {ADVICE}"
    with refused("injected", message, BY_MEMORY):
        control_plane.api.create(pod, "lock-default")


def test_more_slices_of_shared_memory_than_the_pod_says_are_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["shared-memory"])
    pod["spec"]["containers"][1]["resources"] = {"limits": {f"nvidia.com/gpu-{index_of(pod)}": "5"}}
    with refused("injected", PARTS, BY_MEMORY):
        control_plane.api.create(pod, "lock-default")


def test_containers_on_different_gpus_pass_as_the_webhook_left_them(no_webhook, control_plane):
    pod = no_webhook["apart"]
    amounts = [each["resources"]["limits"] for each in pod["spec"]["containers"]]
    names = [f"nvidia.com/gpu-{index}" for index in index_of(pod).split(",")]
    assert amounts == [{names[0]: "6"}, {names[1]: "4"}]
    control_plane.api.create(pod, "lock-apart", dry_run=True)


def test_none_of_an_instance_in_words_is_nothing_to_containers_on_different_gpus(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["apart"])
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-2g.20gb"] = "0"
    pod["spec"]["containers"][0]["resources"].pop("requests", None)
    control_plane.api.create(pod, "lock-apart", dry_run=True)


def test_a_share_of_two_gpus_with_nothing_of_one_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["halves"])
    [task] = pod["spec"]["containers"]
    first, second = sorted(task["resources"]["limits"])
    task["resources"] = {"limits": {first: "4", second: "0"}}
    with refused("injected", limits(8, f"{first}, {second}")):
        control_plane.api.create(pod, "lock-default")


@pytest.mark.parametrize("change", ["slices", "gpu", "both-gpus", "index", "init"])
def test_containers_on_other_gpus_than_the_pod_says_are_refused(no_webhook, control_plane, change):
    pod = copy.deepcopy(no_webhook["apart"])
    train, evaluate = pod["spec"]["containers"]
    first, second = ({name: "1"} for each in (train, evaluate) for name in each["resources"]["limits"])
    if change == "slices":
        train["resources"] = {"limits": dict.fromkeys(first, "7")}
    elif change == "gpu":
        train["resources"] = {"limits": dict.fromkeys(second, "6")}
    elif change == "both-gpus":
        train["resources"] = {"limits": dict.fromkeys(first, "6") | second}
    elif change == "index":
        said(pod)["clearml-injector/gpu-index"] = ",".join(reversed(index_of(pod).split(",")))
    else:
        [warm] = [each for each in pod["spec"]["initContainers"] if each["name"] == "warm"]
        warm["resources"] = {"limits": dict.fromkeys(first, "8")}
    with refused("injected", APART, BY_MEMORY):
        control_plane.api.create(pod, "lock-apart")


def test_a_third_container_with_slices_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["shared"])
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "third"})
    with refused("injected", limits(6, f"nvidia.com/gpu-{index_of(pod)}")):
        control_plane.api.create(pod, "lock-default")


def test_slices_of_two_gpus_without_the_annotation_are_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["halves"])
    del said(pod)["clearml-injector/gpus"]
    with refused("injected", f"clearml-injector/slices: 8 is not what the label says: 0.500: {ADVICE}"):
        control_plane.api.create(pod, "lock-default")
