"""Our init container is known by its content, to the last field but those that others fill in."""

import copy

import pytest

from tests.webhook.support import LIBRARY, reviewed
from tests.webhook.support.limiter_parts import check_again, with_gpu_init
from webhook.admission.exact_match import IDENTITY_VARIABLES

VOLUME = "gpu-limiter-library"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "docker.io/evil/hamicore:v2.10.0"},
        {"command": ["sh", "-c", "true"]},
        {"envFrom": [{"configMapRef": {"name": "fake"}}]},
        {"restartPolicy": "Always"},
        {"volumeDevices": [{"name": "data", "devicePath": "/k8s-vgpu/lib/nvidia/libvgpu.so.1"}]},
        {"terminationMessagePath": f"{LIBRARY}/libvgpu.so"},
        {"terminationMessagePolicy": "FallbackToLogsOnError"},
        {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]},
    ],
)
def test_an_init_container_with_another_field_is_not_taken_for_ours(fields):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["initContainers"][0].update(fields)
    check_again(injected, webhook, 1)


@pytest.mark.parametrize(
    "extra",
    [
        {"name": "data", "mountPath": "/k8s-vgpu/lib/nvidia"},
        {"name": "token", "mountPath": "/var/run/secrets/../../../k8s-vgpu/lib/nvidia", "readOnly": True},
        {"name": "token", "mountPath": "/var/run/secrets", "readOnly": True},
        {"name": "token", "mountPath": "/var/run/secrets//x", "readOnly": True},
        {"name": "token", "mountPath": TOKENS},
        {"name": "token", "mountPath": TOKENS, "readOnly": True, "subPath": "x"},
        {"name": "token", "mountPath": TOKENS, "readOnly": True, "mountPropagation": "Bidirectional"},
        {"name": "data", "mountPath": TOKENS, "readOnly": True},
        {"name": "none", "mountPath": TOKENS, "readOnly": True},
        {"name": VOLUME, "mountPath": TOKENS, "readOnly": True},
        {"name": VOLUME, "mountPath": LIBRARY},
    ],
)
def test_an_init_container_with_another_mount_is_not_taken_for_ours(extra):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["volumes"].append({"name": "token", "projected": {"sources": [{}]}})
    injected["spec"]["initContainers"][0]["volumeMounts"].append(extra)
    check_again(injected, webhook, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}}},
        {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
        {"imagePullPolicy": "Always"},
        {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
        {"name": "renamed"},
        {"args": [], "envFrom": None, "lifecycle": {}, "workingDir": ""},
    ],
)
def test_what_others_fill_in_on_our_init_container_is_not_compared(fields):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["initContainers"][0].update(fields)
    assert webhook.decide(injected).patch == []


@pytest.mark.parametrize("source", ["projected", "secret"])
@pytest.mark.parametrize(
    "path", [TOKENS, "/var/run/secrets/eks.amazonaws.com/serviceaccount", "/var/run/secrets/azure/tokens"]
)
def test_a_token_to_read_is_not_compared(path, source):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["volumes"].append({"name": "token", source: {"secretName": "x"}})
    token = {"name": "token", "mountPath": path, "readOnly": True}
    for each in [*injected["spec"]["initContainers"], *injected["spec"]["containers"]]:
        each["volumeMounts"] = [*(each.get("volumeMounts") or []), copy.deepcopy(token)]
    assert webhook.decide(injected).patch == []


@pytest.mark.parametrize("first", [True, False])
def test_what_says_where_a_token_is_is_not_compared(first):
    """Identity webhooks of clouds write it into every container, ours too: no reason for a second one."""
    webhook, injected = reviewed()
    for each in [*injected["spec"]["initContainers"], *injected["spec"]["containers"]]:
        added = [{"name": name, "value": "x"} for name in sorted(IDENTITY_VARIABLES)]
        each["env"] = added + each["env"] if first else each["env"] + added
    assert webhook.decide(injected).patch == []


@pytest.mark.parametrize(
    "change",
    [
        lambda env: env.append({"name": "AWS_ROLE_ARN", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}),
        lambda env: env.append({"name": "AWS_ROLE", "value": "x"}),
        lambda env: env.append({"name": "PATH", "value": "x"}),
        lambda env: env.pop(),
        lambda env: env[-1].update(value="all"),
    ],
)
def test_other_variables_next_to_a_token_s_are_compared(change):
    webhook, injected = reviewed()
    env = injected["spec"]["initContainers"][0]["env"]
    env.insert(0, {"name": "AWS_REGION", "value": "x"})
    change(env)
    check_again(injected, webhook, 1)
