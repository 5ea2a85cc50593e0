"""Step "env": reserved names belong only to us, LD_PRELOAD is joined, everything else stays."""

import pytest

from kube.device_keys import ENVIRONMENT, names_of
from tests.webhook.support import container, decide, pod, policies


def examples(*decisions):
    return [name.replace("*", "X") for name in names_of(ENVIRONMENT, *decisions)]


RESERVED, REMOVED = examples("removed", "removed-from-gpu-containers"), examples("removed")
KEPT = [name for name in examples("kept") if name != "LD_PRELOAD"]
OURS = [
    ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/usr/local/vgpu-cache/train.cache"),
    ("LIBCUDA_LOG_LEVEL", "1"),
    ("CUDA_DEVICE_MEMORY_LIMIT_0", "11514m"),
]
PRELOAD = ("LD_PRELOAD", "/usr/local/vgpu/libvgpu.so")


def variables(*pairs):
    return [{"name": name, "value": value} for name, value in pairs]


def env_after(*entries, policy_set=None):
    return decide(pod(containers=[container(env=list(entries))]), policy_set).env()


@pytest.mark.parametrize("name", RESERVED)
def test_all_copies_of_a_reserved_name_go_and_ours_stands_once(name):
    env = variables(("A", "1"), (name, "x"), ("B", "2"), (name, "y"), ("C", "3"), (name, "z"))
    assert env_after(*env) == [("A", "1"), ("B", "2"), ("C", "3"), *OURS, PRELOAD]


@pytest.mark.parametrize("hides", ["true", "false"])
@pytest.mark.parametrize("text", ["", "share: none"])
def test_what_no_container_may_set_goes_from_those_without_a_share_too(hides, text):
    shown = ("NVIDIA_VISIBLE_DEVICES", "all")
    env = variables(("A", "1"), shown, *[(name, "x") for name in REMOVED], ("CUDA_REDIRECT", "y"))
    others = {"initContainers": [container("first", env=env)]}
    found = pod(containers=[container(limits={"nvidia.com/gpu": "1"}), container("side", env=env)], **others)
    decided = decide(found, policies(f"hideGpusFromOthers: {hides}\n{text}"))
    hidden = [("A", "1"), ("CUDA_REDIRECT", "y"), ("NVIDIA_VISIBLE_DEVICES", "void")]
    assert decided.env("first") == decided.env("side")
    assert decided.env("side") == (hidden if hides == "true" else [("A", "1"), shown, ("CUDA_REDIRECT", "y")])


@pytest.mark.parametrize("name", KEPT)
def test_what_gives_no_device_stays(name):
    assert env_after(*variables((name, "x"))) == [(name, "x"), *OURS, PRELOAD]


@pytest.mark.parametrize("reference", [{"configMapKeyRef": {"name": "a", "key": "b"}}, {}])
def test_ld_preload_from_a_reference_is_denied(reference):
    env = [{"name": "LD_PRELOAD", "valueFrom": reference}, {"name": "LD_PRELOAD", "value": "/a.so"}]
    decided = decide(pod(containers=[container(env=env)]))
    assert decided.code == "env-value-from"
    assert decided.message == (
        'container "train": LD_PRELOAD comes from valueFrom: set it as a plain value,'
        " so that the limiter's library can be put before it"
    )


@pytest.mark.parametrize(
    ("theirs", "joined"),
    [
        (["/a.so", "/b.so"], f"{PRELOAD[1]}:/b.so"),
        (["/b.so", ""], PRELOAD[1]),
        ([PRELOAD[1]], PRELOAD[1]),
        ([f"{PRELOAD[1]} /b.so"], f"{PRELOAD[1]} /b.so"),
        ([f"{PRELOAD[1]}.old"], f"{PRELOAD[1]}:{PRELOAD[1]}.old"),
    ],
)
def test_our_library_stands_before_theirs_in_the_last_ld_preload(theirs, joined):
    assert env_after(*variables(*[("LD_PRELOAD", text) for text in theirs]))[0] == ("LD_PRELOAD", joined)


@pytest.mark.parametrize(
    "env",
    [
        variables(("LD_PRELOAD", "/a.so"), ("LD_PRELOAD", "/b.so")),
        [{"name": "LD_PRELOAD", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}],
    ],
)
def test_a_limiter_without_a_library_leaves_ld_preload_alone(env):
    after = env_after(*env, policy_set=policies("limiter: none"))
    assert after == [(entry["name"], entry.get("value")) for entry in env]
