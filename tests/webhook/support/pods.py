"""Pods of every shape that the API lets through, and of some that it does not."""

from hypothesis import strategies as st

LABEL = "clearml-injector/fraction"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

FRACTIONS = [f"0.{n * 125:03d}" for n in range(1, 8)]
LIMITER = ["gpu-limiter", "gpu-limiter-library", "gpu-limiter-cache-train", "gpu-limiter-library-2"]
NAMES = [*LIMITER, "train", "task", "side", "warm", "clearml-id-1", "a" * 63, "b" * 63, "a" * 62 + "b"]
KEPT_VARIABLES = ["PATH", "FOO", "NVIDIA_DRIVER_CAPABILITIES"]
VARIABLES = [
    *KEPT_VARIABLES,
    *("NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_MPS_PIPE_DIRECTORY", "LIBCUDA_LOG_LEVEL"),
    *("LD_AUDIT", "NVIDIA_IMEX_CHANNELS", "LD_PRELOAD", "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
]
LIBRARY = "/usr/local/vgpu/libvgpu.so"
VALUES = ["", "1", "all", "void", "/a.so", LIBRARY, f"{LIBRARY}:/b.so", "é"]

never = st.sampled_from([False])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
unknown = st.dictionaries(st.sampled_from(["x-future", "x/~0", "x~1"]), json_values, max_size=2)


def some(required, optional):
    """An object with known fields, some of them missing or null, and also unknown ones."""
    nullable = {name: st.none() | values for name, values in optional.items()}
    known = st.fixed_dictionaries(required, optional=nullable)
    return st.tuples(unknown, known).map(lambda both: {**both[0], **both[1]})


plain_env = some({"name": st.sampled_from(VARIABLES)}, {"value": st.sampled_from(VALUES)})
reference_env = some(
    {"name": st.sampled_from([name for name in VARIABLES if name != "LD_PRELOAD"])},
    {"valueFrom": st.just({"configMapKeyRef": {"name": "a", "key": "b"}})},
)
env = st.lists(st.one_of(plain_env, plain_env, reference_env), max_size=5)

quantities = st.sampled_from(["1", "2", "500m", "1Gi", "0"])
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/nic"]), quantities, max_size=3
)
mounts = st.lists(
    some(
        {
            "name": st.sampled_from([*LIMITER, "data", "host"]),
            "mountPath": st.sampled_from(["/data", "/usr/local", "/usr/local/vgpu2", "/host", "/opt"]),
        },
        {"readOnly": st.booleans()},
    ),
    max_size=2,
)
volumes = st.lists(
    some(
        {"name": st.sampled_from([*LIMITER, "data", "host"])},
        {
            "emptyDir": st.sampled_from([{}, {"sizeLimit": "8Mi"}]),
            "hostPath": st.sampled_from([{"path": "/data"}, {"path": "/var/log", "type": ""}]),
        },
    ),
    max_size=3,
    unique_by=lambda volume: volume["name"],
)

fields = {
    "image": st.sampled_from(["example.com/a:1", "example.com/b@sha256:0"]),
    "env": env,
    "volumeMounts": mounts,
    "resources": some({}, {"limits": amounts, "requests": amounts}),
    "securityContext": some({}, {"privileged": never}),
}
keys = st.sampled_from(["nvidia.com/gpu.present", "nvidia.com/gpu.memory"])
requirement = some({"key": keys, "operator": st.just("Exists")}, {"values": st.just([])})
requirements = st.lists(requirement, max_size=2)
terms = st.lists(some({}, {"matchExpressions": requirements}), min_size=1, max_size=3)
filled_term = some({"matchExpressions": st.lists(requirement, min_size=1, max_size=2)}, {})
required = some({"nodeSelectorTerms": st.tuples(terms, filled_term).map(lambda t: [*t[0], t[1]])}, {})
preferred = st.just([{"weight": 1, "preference": {"matchFields": []}}])
node_affinity = some({}, {REQUIRED: required, PREFERRED: preferred})
affinity = some({}, {"podAffinity": json_values, "nodeAffinity": node_affinity})
GPU = {"nvidia.com/gpu": "1"}
gpu_amounts = st.sampled_from(
    [{}, GPU, {"nvidia.com/gpu.shared": "1"}, {**GPU, "clear.ml/fraction-1": "SHARE"}]
)
NOTES = ["note", "a/b~c", *(f"clearml-injector/{name}" for name in ("slices", "gpu-index", "injected"))]
annotations = st.dictionaries(st.sampled_from(NOTES), st.sampled_from(["", "1", "default@x"]), max_size=3)


def container(name):
    return some({"name": st.just(name)}, fields)


def asking(made, wants, share):
    """A container that asks for a GPU in limits and requests, as the API server would send it."""
    if not wants:
        return made
    wants = {name: share if amount == "SHARE" else amount for name, amount in wants.items()}
    resources = dict(made.get("resources") or {})
    for field in ("limits", "requests"):
        resources[field] = {**(resources.get(field) or {}), **wants}
    return {**made, "resources": resources}


@st.composite
def pods(draw):
    """A labelled pod that is to be admitted, with the name of its GPU container and of its GPU inits."""
    fraction = draw(st.sampled_from(FRACTIONS))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    regular = draw(st.integers(1, len(names)))
    chosen = draw(st.sampled_from(names[:regular]))
    containers = [draw(container(name)) for name in names[:regular]]
    inits = [draw(container(name)) for name in names[regular:]]
    wants = [draw(gpu_amounts) if one["name"] == chosen else {} for one in containers]
    containers = [asking(one, want, fraction) for one, want in zip(containers, wants, strict=True)]
    init_wants = [draw(gpu_amounts) for _ in inits]
    inits = [asking(one, want, fraction) for one, want in zip(inits, init_wants, strict=True)]
    for one, want in zip(inits, init_wants, strict=True):
        if not want and draw(st.booleans()):
            one["restartPolicy"] = "Always"
    metadata = draw(some({"labels": st.just({LABEL: fraction})}, {"annotations": annotations}))
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "clearml-injector/container": chosen}
    optional = {
        "volumes": volumes,
        "affinity": affinity,
        "nodeSelector": st.just({}),
        "hostPID": never,
        "hostIPC": never,
    }
    spec = draw(some({"containers": st.just(containers)}, optional))
    if inits or draw(st.booleans()):
        spec["initContainers"] = inits
    pod = {**draw(unknown), "metadata": metadata, "spec": spec}
    gpu_inits = [one["name"] for one, want in zip(inits, init_wants, strict=True) if want]
    return pod, chosen, gpu_inits
