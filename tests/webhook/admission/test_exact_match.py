"""Our init container is known by its content, to the last field but those that others fill in."""

import pytest

from tests.webhook.support import LIBRARY, reviewed
from tests.webhook.support.limiter_parts import check_again, with_gpu_init
from webhook.admission.exact_match import IDENTITY_VARIABLES

VOLUME = "gpu-limiter-library"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN = {"name": "token", "mountPath": TOKENS, "readOnly": True}
REGION = {"name": "AWS_REGION", "value": "x"}


def with_ours(change):
    """The webhook, and an injected pod after a change of our init container."""
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["volumes"].append({"name": "token", "projected": {"sources": [{}]}})
    change(injected["spec"]["initContainers"][0])
    return webhook, injected


def fields(**changed):
    return lambda ours: ours.update(changed)


def mounts(**changed):
    return lambda ours: ours["volumeMounts"].append({**TOKEN, **changed})


def env(*added, last=None):
    return lambda ours: ours.update(env=[REGION, {**ours["env"][0], **(last or {})}, *added])


@pytest.mark.parametrize(
    "change",
    [
        fields(image="docker.io/evil/hamicore:v2.10.0"),
        fields(image="docker.io/projecthami/hamicore:v2.10.0@sha256:" + "0123456789abcdef" * 4),
        fields(command=["sh", "-c", "true"]),
        fields(envFrom=[{"configMapRef": {"name": "fake"}}]),
        fields(restartPolicy="Always"),
        fields(volumeDevices=[{"name": "data", "devicePath": "/k8s-vgpu/lib/nvidia/libvgpu.so.1"}]),
        fields(terminationMessagePath=f"{LIBRARY}/libvgpu.so"),
        fields(terminationMessagePolicy="FallbackToLogsOnError"),
        fields(resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}]),
        mounts(name="data", mountPath="/k8s-vgpu/lib/nvidia", readOnly=False),
        mounts(mountPath="/var/run/secrets/../../../k8s-vgpu/lib/nvidia"),
        mounts(mountPath="/var/run/secrets"),
        mounts(mountPath="/var/run/secrets//x"),
        mounts(readOnly=None),
        mounts(subPath="x"),
        mounts(mountPropagation="Bidirectional"),
        mounts(name="data"),
        mounts(name="none"),
        mounts(name=VOLUME),
        mounts(name=VOLUME, mountPath=LIBRARY, readOnly=False),
        env({"name": "AWS_ROLE_ARN", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}),
        env({"name": "AWS_ROLE", "value": "x"}),
        env({"name": "PATH", "value": "x"}),
        env(last=REGION),
        env(last={"value": "all"}),
    ],
)
def test_an_init_container_that_differs_is_not_taken_for_ours(change):
    webhook, injected = with_ours(change)
    check_again(injected, webhook, 1)


CPU = {"limits": {"cpu": "1"}, "requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}}


@pytest.mark.parametrize(
    "change",
    [
        fields(resources=CPU),
        fields(terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File"),
        fields(imagePullPolicy="Always"),
        fields(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
        fields(name="renamed"),
        fields(args=[], envFrom=None, lifecycle={}, workingDir=""),
        env({"name": "AWS_ROLE_ARN", "value": "x"}),
    ],
)
def test_what_others_fill_in_on_our_init_container_is_not_compared(change):
    webhook, injected = with_ours(change)
    assert webhook.decide(injected).patch == []


@pytest.mark.parametrize("source", ["projected", "secret"])
@pytest.mark.parametrize("path", [TOKENS, "/var/run/secrets/azure/tokens"])
def test_tokens_and_what_says_where_they_are_is_no_reason_for_a_second_one(path, source):
    """Identity webhooks of clouds write both into every container, ours too."""
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["volumes"].append({"name": "token", source: {"secretName": "x"}})
    for each in [*injected["spec"]["initContainers"], *injected["spec"]["containers"]]:
        each["volumeMounts"] = [*(each.get("volumeMounts") or []), {**TOKEN, "mountPath": path}]
        each["env"] = [*(each.get("env") or []), *({**REGION, "name": name} for name in IDENTITY_VARIABLES)]
    assert webhook.decide(injected).patch == []
