"""What an earlier review wrote is known by its content, to the last field: else it is written again."""

import copy

import pytest

from tests.webhook.support import CACHE, LIBRARY, container, named, pod, reviewed
from tests.webhook.support.limiter_parts import check_limiter

VOLUME = "gpu-limiter-library"
CACHE_VOLUME = "gpu-limiter-cache-train"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


def with_gpu_init():
    return pod(
        initContainers=[container("warm", limits={"nvidia.com/gpu": "1"}), container("setup")],
        containers=[container(volumeMounts=[{"name": "data", "mountPath": "/data"}])],
        volumes=[{"name": "data", "emptyDir": {}}],
    )


def check_anew(changed, webhook, count):
    """The limiter is in effect after the review, by an init container more, and stays as it is."""
    again = webhook.decide(changed)
    assert again.code == "injected", again.reply
    assert len(again.spec["initContainers"]) == len(changed["spec"]["initContainers"] or ()) + count
    check_limiter(again.stored)
    assert webhook.decide(again.stored).patch == []


def mount(spec, name=VOLUME):
    return named(spec["containers"][0]["volumeMounts"], name)


def user(**fields):
    return container("other", **fields)


WRITES = {"volumeMounts": [{"name": VOLUME, "mountPath": "/x"}]}
READS = {"volumeMounts": [{"name": VOLUME, "mountPath": "/x", "readOnly": True}]}
FOLDER = {"volumeMounts": [{"name": VOLUME, "mountPath": "/x", "readOnly": True, "subPath": "libvgpu.so"}]}


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: mount(spec).update(readOnly=False),
        lambda spec: mount(spec).pop("readOnly"),
        lambda spec: mount(spec).update(subPath="empty"),
        lambda spec: mount(spec).update(subPathExpr="$(HOME)"),
        lambda spec: mount(spec).update(mountPropagation="HostToContainer"),
        lambda spec: mount(spec).update(recursiveReadOnly="IfPossible"),
        lambda spec: mount(spec).update(unknown="x"),
        lambda spec: spec["initContainers"].append(user(**WRITES)),
        lambda spec: spec["initContainers"].insert(0, user(**WRITES)),
        lambda spec: spec["initContainers"].insert(0, user(**READS)),
        lambda spec: spec["initContainers"].insert(0, user(**FOLDER)),
        lambda spec: spec["initContainers"].insert(0, user(**WRITES, restartPolicy="Always")),
        lambda spec: spec["containers"].append(user(**WRITES)),
        lambda spec: spec["containers"].append(user(**READS)),
        lambda spec: spec["containers"].append(user(volumeDevices=[{"name": VOLUME, "devicePath": "/x"}])),
        lambda spec: spec["containers"][0]["volumeMounts"].append({"name": VOLUME, "mountPath": "/x"}),
        lambda spec: named(spec["volumes"], VOLUME).update(emptyDir="x"),
        lambda spec: named(spec["volumes"], VOLUME).update(emptyDir={}),
        lambda spec: named(spec["volumes"], VOLUME)["emptyDir"].update(sizeLimit="1Ki"),
        lambda spec: named(spec["volumes"], VOLUME)["emptyDir"].update(medium="Memory"),
        lambda spec: named(spec["volumes"], VOLUME).update(configMap={"name": "fake"}),
        lambda spec: named(spec["volumes"], VOLUME).pop("emptyDir"),
        lambda spec: spec["volumes"].remove(named(spec["volumes"], VOLUME)),
        lambda spec: spec["initContainers"].pop(0),
        lambda spec: spec["initContainers"].append(spec["initContainers"].pop(0)),
    ],
)
def test_a_library_that_is_not_as_we_wrote_it_is_not_taken_for_ours(change):
    webhook, injected = reviewed(with_gpu_init())
    change(injected["spec"])
    check_anew(injected, webhook, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: mount(spec).update(name="data"),
        lambda spec: mount(spec, CACHE_VOLUME).update(readOnly=True),
        lambda spec: mount(spec, CACHE_VOLUME).update(subPath="shared"),
        lambda spec: mount(spec, CACHE_VOLUME).update(name="data"),
        lambda spec: mount(spec, CACHE_VOLUME).update(name="gpu-limiter-cache-warm"),
        lambda spec: named(spec["volumes"], CACHE_VOLUME)["emptyDir"].update(medium="Memory"),
        lambda spec: spec["initContainers"].insert(
            0, user(volumeMounts=[{"name": CACHE_VOLUME, "mountPath": "/x"}])
        ),
        lambda spec: spec["containers"].append(
            user(volumeMounts=[{"name": CACHE_VOLUME, "mountPath": "/x", "readOnly": True}])
        ),
    ],
)
def test_a_mount_that_shows_something_else_is_put_back(change):
    """Nobody else may fill the cache: the library believes the limits in its accounting file."""
    webhook, injected = reviewed(with_gpu_init())
    change(injected["spec"])
    check_anew(injected, webhook, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "docker.io/evil/hamicore:v2.10.0"},
        {"command": ["sh", "-c", "true"]},
        {"command": None},
        {"args": ["--help"]},
        {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "PATH", "value": "/x"}]},
        {
            "env": [
                {"name": "LD_PRELOAD", "value": "/x.so"},
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
            ]
        },
        {"envFrom": [{"configMapRef": {"name": "fake"}}]},
        {"restartPolicy": "Always"},
        {"restartPolicyRules": [{"action": "Restart"}]},
        {"workingDir": "/x"},
        {"lifecycle": {"postStart": {"exec": {"command": ["sh"]}}}},
        {"livenessProbe": {"exec": {"command": ["sh"]}}},
        {"readinessProbe": {"exec": {"command": ["sh"]}}},
        {"startupProbe": {"exec": {"command": ["sh"]}}},
        {"volumeDevices": [{"name": "data", "devicePath": "/k8s-vgpu/lib/nvidia/libvgpu.so.1"}]},
        {"terminationMessagePath": f"{LIBRARY}/libvgpu.so"},
        {"terminationMessagePolicy": "FallbackToLogsOnError"},
        {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]},
        {"ports": [{"containerPort": 80}]},
        {"stdin": True},
        {"tty": True},
        {"securityContext": None},
        {"x-future": {"a": 1}},
    ],
)
def test_an_init_container_with_another_field_is_not_taken_for_ours(fields):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["initContainers"][0].update(fields)
    check_anew(injected, webhook, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"privileged": True},
        {"procMount": "Unmasked"},
        {"runAsUser": 0},
        {"runAsGroup": 0},
        {"runAsNonRoot": None},
        {"allowPrivilegeEscalation": None},
        {"readOnlyRootFilesystem": False},
        {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}},
        {"seccompProfile": {"type": "Unconfined"}},
        {"seLinuxOptions": {"type": "spc_t"}},
        {"appArmorProfile": {"type": "Unconfined"}},
    ],
)
def test_an_init_container_of_another_security_context_is_not_taken_for_ours(fields):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["initContainers"][0]["securityContext"].update(fields)
    check_anew(injected, webhook, 1)


@pytest.mark.parametrize(
    "extra",
    [
        {"name": "data", "mountPath": "/k8s-vgpu/lib/nvidia"},
        {"name": "token", "mountPath": "/var/run/secrets/../../../k8s-vgpu/lib/nvidia", "readOnly": True},
        {"name": "token", "mountPath": f"{TOKENS}/../../../../../k8s-vgpu", "readOnly": True},
        {"name": "token", "mountPath": "/var/run/secrets", "readOnly": True},
        {"name": "token", "mountPath": "/var/run/secretsx", "readOnly": True},
        {"name": "token", "mountPath": "/var/run/secrets//x", "readOnly": True},
        {"name": "token", "mountPath": TOKENS},
        {"name": "token", "mountPath": TOKENS, "readOnly": True, "subPath": "x"},
        {"name": "token", "mountPath": TOKENS, "readOnly": True, "mountPropagation": "Bidirectional"},
        {"name": "data", "mountPath": TOKENS, "readOnly": True},
        {"name": "none", "mountPath": TOKENS, "readOnly": True},
        {"name": VOLUME, "mountPath": TOKENS, "readOnly": True},
        {"name": VOLUME, "mountPath": LIBRARY},
        {"name": VOLUME, "mountPath": f"{LIBRARY}/x"},
    ],
)
def test_an_init_container_with_another_mount_is_not_taken_for_ours(extra):
    webhook, injected = reviewed(with_gpu_init())
    injected["spec"]["volumes"].append({"name": "token", "projected": {"sources": [{}]}})
    injected["spec"]["initContainers"][0]["volumeMounts"].append(extra)
    check_anew(injected, webhook, 1)


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


AWS = ["AWS_STS_REGIONAL_ENDPOINTS", "AWS_REGION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"]
AZURE = ["AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"]


@pytest.mark.parametrize("names", [AWS, AZURE])
@pytest.mark.parametrize("first", [True, False])
def test_what_says_where_a_token_is_is_not_compared(names, first):
    """Identity webhooks of clouds write it into every container, ours too: no reason for a second one."""
    webhook, injected = reviewed()
    for each in [*injected["spec"]["initContainers"], *injected["spec"]["containers"]]:
        told = [{"name": name, "value": "x"} for name in names]
        each["env"] = told + each["env"] if first else each["env"] + told
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
def test_other_variables_beside_a_token_s_are_compared(change):
    webhook, injected = reviewed()
    env = injected["spec"]["initContainers"][0]["env"]
    env.insert(0, {"name": "AWS_REGION", "value": "x"})
    change(env)
    check_anew(injected, webhook, 1)


def test_an_image_fetched_from_a_mirror_is_no_reason_to_refuse_the_pod():
    webhook, injected = reviewed()
    injected["spec"]["initContainers"][0]["image"] = "mirror.example.com/projecthami/hamicore:v2.10.0"
    again = webhook.decide(injected)
    assert [each["name"] for each in again.spec["initContainers"]] == ["gpu-limiter-2", "gpu-limiter"]
    assert named(again.container()["volumeMounts"], f"{VOLUME}-2")["mountPath"] == LIBRARY
    check_limiter(again.stored)
    assert webhook.decide(again.stored).patch == []


@pytest.mark.parametrize("place", [LIBRARY, CACHE])
@pytest.mark.parametrize(("path", "count"), [("{}", 2), ("{}/", 1), ("/{}", 1), ("{}/libvgpu.so", 1)])
def test_a_second_mount_where_the_limiter_goes_is_denied(place, path, count):
    """A mount of our own volume too: below a subPath that does not exist, the library is an empty folder."""
    webhook, injected = reviewed()
    path = path.format(place)
    extra = {"name": VOLUME, "mountPath": path, "subPath": "x", "readOnly": True}
    injected["spec"]["containers"][0]["volumeMounts"] += [dict(extra) for _ in range(count)]
    decided = webhook.decide(injected)
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "train" mounts {path}, where the GPU memory limiter goes: use another path'
    )
