"""What an earlier review wrote is known by its content: what others can change is not taken for ours."""

import pytest

from tests.webhook.support import container, named, reviewed


def writable(spec):
    named(spec["containers"][0]["volumeMounts"], "gpu-limiter-library")["readOnly"] = False


def below_a_folder(spec):
    named(spec["containers"][0]["volumeMounts"], "gpu-limiter-library")["subPath"] = "empty"


def below_an_expression(spec):
    named(spec["containers"][0]["volumeMounts"], "gpu-limiter-library")["subPathExpr"] = "$(HOME)"


def filled_by_another(spec):
    mounts = [{"name": "gpu-limiter-library", "mountPath": "/x"}]
    spec["initContainers"].append(container("overwrite", volumeMounts=mounts))


def filled_by_a_sidecar(spec):
    mounts = [{"name": "gpu-limiter-library", "mountPath": "/x"}]
    spec["containers"].append(container("overwrite", volumeMounts=mounts))


def writable_elsewhere(spec):
    spec["containers"][0]["volumeMounts"].append({"name": "gpu-limiter-library", "mountPath": "/x"})


def a_volume_of_another_kind(spec):
    named(spec["volumes"], "gpu-limiter-library").pop("emptyDir")


def a_volume_of_no_kind(spec):
    named(spec["volumes"], "gpu-limiter-library")["emptyDir"] = "x"


@pytest.mark.parametrize(
    "change",
    [
        a_volume_of_no_kind,
        writable,
        below_a_folder,
        below_an_expression,
        filled_by_another,
        filled_by_a_sidecar,
        writable_elsewhere,
        a_volume_of_another_kind,
    ],
)
def test_a_library_that_somebody_else_can_fill_is_not_taken_for_ours(change):
    webhook, injected = reviewed()
    change(injected["spec"])
    decided = webhook.decide(injected)
    assert decided.code == "mount-path"
    assert decided.message == (
        'container "train" mounts /usr/local/vgpu, where the GPU memory limiter goes: use another path'
    )


def other_command(ours):
    ours["command"] = ["sh", "-c", "true"]


def arguments(ours):
    ours["args"] = ["--help"]


def sidecar(ours):
    ours["restartPolicy"] = "Always"


def other_source(ours):
    ours["volumeMounts"].append({"name": "fake", "mountPath": "/k8s-vgpu/lib/nvidia"})


def other_target(ours):
    ours["volumeMounts"][0]["subPath"] = "x"


@pytest.mark.parametrize("change", [other_command, arguments, other_source, other_target, sidecar])
def test_an_init_container_that_does_something_else_is_not_taken_for_ours(change):
    webhook, injected = reviewed()
    change(injected["spec"]["initContainers"][0])
    decided = webhook.decide(injected)
    assert decided.code == "mount-path"


def test_an_image_fetched_from_a_mirror_is_no_reason_to_refuse_the_pod():
    webhook, injected = reviewed()
    injected["spec"]["initContainers"][0]["image"] = "mirror.example.com/projecthami/hamicore:v2.10.0"
    again = webhook.decide(injected)
    assert [each["name"] for each in again.spec["initContainers"]] == ["gpu-limiter-2", "gpu-limiter"]
    assert webhook.decide(again.stored).patch == []


def test_without_our_init_container_the_library_is_not_taken_for_ours():
    webhook, injected = reviewed()
    del injected["spec"]["initContainers"]
    assert webhook.decide(injected).code == "injected"
