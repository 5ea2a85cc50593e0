"""Whatever is changed of what we wrote into a pod: after its next review our exact limiter is in effect."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.webhook.support import CACHE, LIBRARY, Webhook, container, pod
from tests.webhook.support.limiter_parts import check_limiter

VOLUMES = ["gpu-limiter-library", "gpu-limiter-cache-train", "gpu-limiter-cache-warm", "data", "token"]
PATHS = [LIBRARY, f"{LIBRARY}/libvgpu.so", f"{LIBRARY}/", CACHE, "/k8s-vgpu", "/x", "/"]
PATHS += ["/var/run/secrets/../../../k8s-vgpu/lib/nvidia", "/var/run/secrets/kubernetes.io/serviceaccount"]
DENIED = {
    "duplicate-name",
    "mount-path",
    "unreadable-object",
    "gpu-index-set",
    "several-gpu-containers",
    "privileged",
}
WEBHOOK = Webhook()


def clean():
    """A pod with every kind of container, as the API server stores it after the first review."""
    found = pod(
        initContainers=[container("warm", limits={"nvidia.com/gpu": "1"}), container("setup")],
        containers=[container(limits={"nvidia.com/gpu": "1"}), container("side")],
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "token", "projected": {"sources": [{}]}}],
    )
    stored = WEBHOOK.decide(found, dryRun=True).stored
    ours = stored["spec"]["initContainers"][0]
    ours |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    check_limiter(stored)
    assert WEBHOOK.decide(stored).patch == []
    return stored


CLEAN = clean()
SCALARS = st.sampled_from([None, "", "x", "Always", "void", 0, 65534, True, False, *PATHS, *VOLUMES])
MOUNTS = st.fixed_dictionaries(
    {"name": st.sampled_from(VOLUMES), "mountPath": st.sampled_from(PATHS)},
    optional={
        "readOnly": st.booleans(),
        "subPath": st.sampled_from(["", "x", "libvgpu.so"]),
        "subPathExpr": st.just("$(X)"),
        "mountPropagation": st.sampled_from(["None", "HostToContainer", "Bidirectional"]),
        "recursiveReadOnly": st.just("Enabled"),
    },
)
ENV = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            ["PATH", "LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES", "CUDA_REDIRECT", "A", "AWS_REGION"]
        )
    },
    optional={"value": st.sampled_from(["", "void", "/x.so"])},
)
VALUES = st.one_of(
    SCALARS,
    MOUNTS,
    ENV,
    st.lists(MOUNTS, max_size=2),
    st.lists(ENV, max_size=2),
    st.lists(st.sampled_from(["sh", "-c", "true"]), max_size=3),
    st.dictionaries(
        st.sampled_from(["name", "exec", "add", "drop", "sizeLimit", "medium"]), SCALARS, max_size=2
    ),
)
FIELDS = st.sampled_from(
    [
        *(
            "args",
            "command",
            "env",
            "envFrom",
            "image",
            "lifecycle",
            "livenessProbe",
            "name",
            "ports",
            "stdin",
        ),
        *(
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "securityContext",
            "startupProbe",
            "resources",
        ),
        *(
            "terminationMessagePath",
            "terminationMessagePolicy",
            "volumeDevices",
            "volumeMounts",
            "workingDir",
        ),
        *(
            "mountPath",
            "subPath",
            "readOnly",
            "emptyDir",
            "hostPath",
            "privileged",
            "capabilities",
            "procMount",
        ),
        "x-future",
    ]
)


def mounts(container):
    """Mounts of a container, which may hold anything by now."""
    found = container.get("volumeMounts")
    return found if isinstance(found, list) else []


def parts(spec):
    """Everything that we wrote, as steps to it."""
    yield "initContainers", 0
    for at in range(len(spec["volumes"])):
        yield "volumes", at
    for field in ("initContainers", "containers"):
        for position, each in enumerate(spec[field]):
            for at in range(len(mounts(each))):
                yield field, position, "volumeMounts", at


def tampered_field(draw, spec):
    """Replace, remove or add a member somewhere in what we wrote."""
    *steps, key = draw(st.sampled_from(sorted(parts(spec), key=str)))
    parent = spec
    for step in steps:
        parent = parent[step]
    while isinstance(parent[key], dict | list) and parent[key] and draw(st.integers(0, 3)):
        parent = parent[key]
        is_list = isinstance(parent, list)
        key = draw(
            st.sampled_from(range(len(parent))) if is_list else st.sampled_from(sorted(parent)) | FIELDS
        )
        if not is_list and key not in parent:
            parent[key] = None
    if draw(st.booleans()):
        parent[key] = draw(VALUES)
    elif draw(st.booleans()):
        del parent[key]
    elif isinstance(parent, list):
        parent.insert(draw(st.integers(0, len(parent))), draw(VALUES | st.just(copy.deepcopy(parent[key]))))


def another_mount(draw, spec):
    each = draw(st.sampled_from([*spec["initContainers"], *spec["containers"]]))
    each["volumeMounts"] = [*mounts(each), draw(MOUNTS)]


def another_token(draw, spec):
    """A mount that looks like a token's; for most paths it is none."""
    ours = spec["initContainers"][0]
    extra = {"name": "token", "mountPath": draw(st.sampled_from(PATHS)), "readOnly": True}
    ours["volumeMounts"] = [*mounts(ours), extra]


def another_path(draw, spec):
    """Whatever is a path of our init container, somewhere else."""
    field = draw(st.sampled_from(["terminationMessagePath", "workingDir"]))
    spec["initContainers"][0][field] = draw(st.sampled_from(PATHS))


def another_container(draw, spec):
    field = draw(st.sampled_from(["initContainers", "containers"]))
    made = container("other", volumeMounts=draw(st.lists(MOUNTS, max_size=2)))
    if draw(st.booleans()):
        made = {**copy.deepcopy(spec["initContainers"][0]), "name": "other"}
        made[draw(FIELDS)] = draw(VALUES)
    spec[field].insert(draw(st.integers(0, len(spec[field]))), made)


def another_order(draw, spec):
    spec["initContainers"] = draw(st.permutations(spec["initContainers"]))


@settings(max_examples=examples(400))
@given(st.data())
def test_our_exact_limiter_is_in_effect_after_the_next_review(data):
    found = copy.deepcopy(CLEAN)
    ways = [tampered_field] * 4
    ways += [another_mount, another_token, another_path, another_container, another_order]
    for way in data.draw(st.lists(st.sampled_from(ways), min_size=1, max_size=3)):
        # Such a pod has no further parts to change.
        if all(
            isinstance(each, dict) for each in (*found["spec"]["initContainers"], *found["spec"]["volumes"])
        ):
            way(data.draw, found["spec"])
    again = WEBHOOK.decide(found, dryRun=True)
    if again.allowed:
        check_limiter(again.stored)
        assert WEBHOOK.decide(again.stored, dryRun=True).patch == []
    else:
        assert again.code in DENIED, again.message
