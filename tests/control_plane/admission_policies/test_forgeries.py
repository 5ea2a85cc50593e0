"""Where no webhook reviews: pods that claim to be injected pass as the webhook leaves them only."""

import copy

import pytest

from testbed.registration import labelled_pod
from tests.control_plane.admission_policies.support import refused
from tests.control_plane.admission_policies.test_creations import NOT_INJECTED

ADVICE = "leave out what the injector writes, and if you did, tell your admin"
ENV = (
    "env of GPU containers: must hold the limiter's variables once, "
    f"for the MiB in clearml-injector/memory-mib: {ADVICE}"
)
PARTS = (
    f"limits: the containers that ask for slices must be those of clearml-injector/gpu-container: {ADVICE}"
)
APART = (
    "limits of GPU containers: must be the slices of each container on the GPU "
    f"that clearml-injector/gpu-index says of it: {ADVICE}"
)
EACH_GPU = f"env of GPU containers: must limit each of the GPUs in clearml-injector/gpus once: {ADVICE}"
CONTAINER = f"clearml-injector/gpu-container: the container is missing or requests no slices: {ADVICE}"
OF_AN_INSTANCE = f"clearml-injector/slices: not what the label says of a MIG instance: {ADVICE}"
TAKES_DEVICES = (
    "annotations that give devices, such as nvidia.cdi.k8s.io: a pod with the label may not have them:"
    " remove them"
)
SELECTS = "volumeMounts: a path that begins with /run/nvidia-container-devices selects GPUs: remove the mount"
BYPASSES = (
    "env: NVIDIA_VISIBLE_DEVICES of GPU containers, and in others variables such as"
    f" CUDA_MPS_PIPE_DIRECTORY, bypass the share: {ADVICE}"
)
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"


def limits(what):
    return f"limits of GPU containers: must be {what}, as the annotations say: {ADVICE}"


def label_says(slices, label):
    return f"clearml-injector/slices: {slices} is not what the label says: {label}: {ADVICE}"


def said(pod):
    return pod["metadata"]["annotations"]


def indices(pod):
    return said(pod).get("clearml-injector/gpu-index", "").split(",")


def say(**changed):
    """Other words of the injector."""
    return lambda pod: said(pod).update(
        {f"clearml-injector/{k.replace('_', '-')}": v for k, v in changed.items()}
    )


def unsay(name):
    return lambda pod: said(pod).pop(f"clearml-injector/{name}")


def label(name, value):
    return lambda pod: pod["metadata"]["labels"].update({f"clearml-injector/{name}": value})


def ask(amounts, at=0):
    """Other amounts of a container; "{0}" is the index of the pod's first GPU."""

    def change(pod):
        asked = {name.format(*indices(pod)): amount for name, amount in amounts.items()}
        pod["spec"]["containers"][at]["resources"] = {"limits": asked}

    return change


def variable(pod, name):
    [found] = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == name]
    return found


def set_to(name, value):
    return lambda pod: variable(pod, name).update(value=value)


def again(name, value):
    return lambda pod: pod["spec"]["containers"][0]["env"].append({"name": name, "value": value})


def without(name):
    return lambda pod: pod["spec"]["containers"][0]["env"].remove(variable(pod, name))


def without_env(pod):
    del pod["spec"]["containers"][0]["env"]


def from_elsewhere(pod):
    found = variable(pod, LIMIT)
    del found["value"]
    found["valueFrom"] = {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}}


def preloaded_last(pod):
    found = variable(pod, "LD_PRELOAD")
    found["value"] = f"/mine.so:{found['value']}"


def without_slices(pod):
    del pod["spec"]["containers"][0]["resources"]
    del pod["spec"]["initContainers"]


def more(field, **fields):
    """One container more that holds what the first does."""
    return lambda pod: pod["spec"][field].append({**pod["spec"]["containers"][0], "name": "second", **fields})


def exchanged(*fields):
    def change(pod):
        one, other = pod["spec"]["containers"]
        for field in fields:
            one[field], other[field] = other[field], one[field]

    return change


def two(*changes):
    def change(pod):
        for each in changes:
            each(pod)

    return change


def selecting(pod):
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    mounts.append({"name": mounts[0]["name"], "mountPath": "/var/run/nvidia-container-devicesall"})


def init_variable(name):
    return lambda pod: pod["spec"]["initContainers"][0]["env"].append({"name": name, "value": "all"})


def init_asks(amounts):
    def change(pod):
        [warm] = [each for each in pod["spec"]["initContainers"] if each["name"] == "warm"]
        warm["resources"] = {"limits": {name.format(*indices(pod)): each for name, each in amounts.items()}}

    return change


ONE, TWO = "nvidia.com/gpu-{0}", "nvidia.com/gpu-{1}"
FORGED = {
    "no slices": ("half", without_slices, CONTAINER),
    "another container": ("half", say(gpu_container="other"), CONTAINER),
    "more slices": ("half", ask({ONE: "5"}), limits(f"4 slices of {ONE}")),
    "another GPU": ("half", ask({"nvidia.com/gpu-99": "4"}), limits(f"4 slices of {ONE}")),
    "one GPU for two": (
        "two",
        two(say(gpu_index="0,0"), ask({"nvidia.com/gpu-0": "8"})),
        limits("16 slices of nvidia.com/gpu-0, nvidia.com/gpu-0"),
    ),
    "more of the pool": ("pooled", ask({"nvidia.com/gpu": "7"}), limits("2 slices of nvidia.com/gpu")),
    "two instances": ("mig", ask({"nvidia.com/mig-3g.40gb": "2"}), limits("one of nvidia.com/mig-3g.40gb")),
    "instances of two profiles": (
        "mig",
        ask({"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "1"}),
        limits("one of nvidia.com/mig-<profile>"),
    ),
    "a GPU as an instance": ("mig", ask({"nvidia.com/gpu": "1"}), limits("one of nvidia.com/mig-<profile>")),
    "a slice as an instance": (
        "both",
        ask({"nvidia.com/gpu-0": "1"}),
        limits("1 slices of nvidia.com/gpu-{{index}}"),
    ),
    "a slice of the pool as an instance": ("either", ask({"nvidia.com/gpu": "1"}), ENV),
    "a label above the instance": ("mig", label("fraction", "0.625"), OF_AN_INSTANCE),
    "no number above the instance": ("mig", label("fraction", "NaN"), OF_AN_INSTANCE),
    "a smaller label": ("half", label("fraction", "0.125"), label_says(4, "0.125")),
    "a label of another text": ("half", label("fraction", "0.5"), label_says(4, "0.5")),
    "no limit of most of a GPU": ("most", without_env, ENV),
    "a second container": ("half", more("containers"), PARTS),
    "a second sidecar": ("half", more("initContainers", restartPolicy="Always"), PARTS),
    "the share in an init container": (
        "half",
        two(more("initContainers"), say(gpu_container="second")),
        PARTS,
    ),
    "another's policy": (
        "half",
        say(injected="open@0"),
        f"clearml-injector/injected: policy open is not for namespace forged-default: {ADVICE}",
    ),
    "another's queue": (
        "half",
        two(
            lambda pod: pod["metadata"]["labels"].update({"clearml-agent-queue-name": "trusted"}), without_env
        ),
        ENV,
    ),
    **{f"no limit in {which}": (which, without_env, ENV) for which in ("half", "pooled", "driver", "custom")},
    "a raised limit": ("half", set_to(LIMIT, "81920m"), ENV),
    "no limit in its value": ("half", set_to(LIMIT, "0.5g"), ENV),
    "a limit twice": ("half", again(LIMIT, "81920m"), ENV),
    "a limit from elsewhere": ("half", from_elsewhere, ENV),
    "no library": ("half", set_to("LD_PRELOAD", "/mine.so"), ENV),
    "another library first": ("half", preloaded_last, ENV),
    "no memory": ("half", unsay("memory-mib"), ENV),
    "devices by NRI": ("half", lambda pod: said(pod).update({"mounts.nri.io": "all"}), TAKES_DEVICES),
    "devices by KAI": (
        "half",
        lambda pod: said(pod).update({"nvidia.com/container.a.gpus.devices": "all"}),
        TAKES_DEVICES,
    ),
    "devices by a mount": ("half", selecting, SELECTS),
    "every GPU": ("half", again("NVIDIA_VISIBLE_DEVICES", "all"), BYPASSES),
    "MPS of another": ("half", init_variable("CUDA_MPS_PIPE_DIRECTORY"), BYPASSES),
    "no limit of a second GPU": ("halves", without("CUDA_DEVICE_MEMORY_LIMIT_1"), EACH_GPU),
    "a higher limit of a second GPU": ("halves", set_to("CUDA_DEVICE_MEMORY_LIMIT_1", "999999m"), EACH_GPU),
    "a limit of a second GPU twice": ("halves", again("CUDA_DEVICE_MEMORY_LIMIT_1", "9m"), EACH_GPU),
    "two halves of one GPU": (
        "halves",
        two(say(gpu_index="0"), ask({"nvidia.com/gpu-0": "8"})),
        limits("8 slices of nvidia.com/gpu-0"),
    ),
    "nothing of a second GPU": ("halves", ask({ONE: "4", TWO: "0"}), limits(f"8 slices of {ONE}, {TWO}")),
    "two GPUs unsaid": ("halves", unsay("gpus"), label_says(8, "0.500")),
    "exchanged slices": ("shared", exchanged("resources"), limits(f"6 slices of {ONE}")),
    "exchanged memory": ("shared", exchanged("env"), ENV),
    "larger parts than the label": (
        "shared",
        two(say(containers="train=0.500,eval=0.500"), ask({ONE: "4"}, at=1)),
        PARTS,
    ),
    "a third container": ("shared", more("containers", name="third"), limits(f"6 slices of {ONE}")),
}
BY_MEMORY = {
    "more of shared memory": (
        "shared-memory",
        say(containers="train=5Gi,eval=2Gi"),
        label_says("{slices}", "6Gi"),
    ),
    "more slices of shared memory": ("shared-memory", ask({ONE: "5"}, at=1), PARTS),
    "other memory than the limit": ("memory", label("gpu-memory", "5Gi"), label_says("{slices}", "5Gi")),
    "no memory at all": ("memory", label("gpu-memory", ""), label_says("{slices}", "")),
    "memory without its limit": ("memory", without_env, ENV),
    "apart with more slices": ("apart", ask({ONE: "7"}), APART),
    "apart on the other's GPU": ("apart", ask({TWO: "6"}), APART),
    "apart on both": ("apart", ask({ONE: "6", TWO: "1"}), APART),
    "apart before": ("apart", init_asks({ONE: "8"}), APART),
    "apart by the index": ("apart", lambda pod: say(gpu_index=",".join(reversed(indices(pod))))(pod), APART),
}
CASES = {name: (*each, "") for name, each in FORGED.items()}
CASES |= {name: (*each, "-by-memory") for name, each in BY_MEMORY.items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_forged_pod_is_refused_with_what_is_wrong(no_webhook, control_plane, case):
    which, change, message, by = case
    pod = copy.deepcopy(no_webhook[which])
    told = message.format(*indices(pod), slices=said(pod)["clearml-injector/slices"])
    change(pod)
    with refused("injected", told, by):
        control_plane.api.create(pod, pod["metadata"]["namespace"], dry_run=True)


@pytest.mark.parametrize("marked", [False, True])
def test_a_labelled_pod_that_was_not_injected_is_refused(no_webhook, control_plane, marked):
    pod = labelled_pod("plain")
    pod["metadata"]["annotations"] = {"clearml-injector/injected": "default@0"} if marked else {}
    with refused("injected", NOT_INJECTED):
        control_plane.api.create(pod, "forged-default")


def test_a_complete_forgery_passes_as_the_threat_model_says(no_webhook, control_plane):
    """And so does a pod whose containers ask for none of something in words."""
    for which, pod in no_webhook.items():
        made = control_plane.api.create(pod, pod["metadata"]["namespace"], dry_run=True)
        assert said(made) == said(pod), which
    for which, change in (("half", more("initContainers")), ("apart", asks_for_none)):
        pod = copy.deepcopy(no_webhook[which])
        change(pod)
        control_plane.api.create(pod, pod["metadata"]["namespace"], dry_run=True)


def asks_for_none(pod):
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"]["nvidia.com/mig-2g.20gb"] = "0"
    resources.pop("requests", None)
