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
def test_what_no_container_may_set_goes_from_those_without_a_share_too(hides):
    env = variables(("A", "1"), *[(name, "x") for name in REMOVED], ("CUDA_REDIRECT", "y"))
    found = pod(containers=[container(limits={"nvidia.com/gpu": "1"}), container("side", env=env)])
    hidden = [("NVIDIA_VISIBLE_DEVICES", "void")] if hides == "true" else []
    decided = decide(found, policies(f"hideGpusFromOthers: {hides}"))
    assert decided.env("side") == [("A", "1"), ("CUDA_REDIRECT", "y"), *hidden]
    decided = decide(found, policies(f"share: none\nhideGpusFromOthers: {hides}"))
    assert decided.env("side") == [("A", "1"), ("CUDA_REDIRECT", "y"), *hidden]


@pytest.mark.parametrize("name", KEPT)
def test_what_gives_no_device_stays(name):
    assert env_after(*variables((name, "x"))) == [(name, "x"), *OURS, PRELOAD]


def test_a_reserved_name_from_a_reference_goes_too():
    env = {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    assert env_after(env) == [*OURS, PRELOAD]


def test_our_value_from_a_user_is_kept_where_it_stands_once():
    env = variables(("LIBCUDA_LOG_LEVEL", "1"), ("A", "1"))
    assert env_after(*env) == [("LIBCUDA_LOG_LEVEL", "1"), ("A", "1"), OURS[0], OURS[2], PRELOAD]


def test_names_that_only_begin_alike_stay():
    env = [("NVIDIA_VISIBLE_DEVICES_OLD", "x"), ("MY_CUDA_REDIRECT", "y"), ("cuda_redirect", "z")]
    env += [("LD_LIBRARY_PATH", "/opt/lib"), ("LD_AUDIT_X", "a")]
    assert env_after(*variables(*env)) == [*env, *OURS, PRELOAD]


def test_other_variables_stay_as_they_are_duplicates_and_references_too():
    env = [
        {"name": "A", "value": "1"},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "EMPTY"},
    ]
    decided = decide(pod(containers=[container(env=env)]))
    assert decided.container()["env"][:3] == env


@pytest.mark.parametrize(
    ("theirs", "joined"),
    [
        (["/a.so"], "/usr/local/vgpu/libvgpu.so:/a.so"),
        (["/a.so /b.so"], "/usr/local/vgpu/libvgpu.so:/a.so /b.so"),
        ([""], "/usr/local/vgpu/libvgpu.so"),
        (["/usr/local/vgpu/libvgpu.so"], "/usr/local/vgpu/libvgpu.so"),
        (["/usr/local/vgpu/libvgpu.so:/a.so"], "/usr/local/vgpu/libvgpu.so:/a.so"),
        (["/usr/local/vgpu/libvgpu.so.old"], "/usr/local/vgpu/libvgpu.so:/usr/local/vgpu/libvgpu.so.old"),
        (["/a.so:/usr/local/vgpu/libvgpu.so"], "/usr/local/vgpu/libvgpu.so:/a.so:/usr/local/vgpu/libvgpu.so"),
        (["/old.so", "/a.so"], "/usr/local/vgpu/libvgpu.so:/a.so"),
    ],
)
def test_ld_preload_is_joined_behind_ours(theirs, joined):
    env = variables(
        ("A", "1"), *(("LD_PRELOAD", value) for value in theirs), ("CUDA_REDIRECT", "/x"), ("B", "2")
    )
    assert env_after(*env) == [("A", "1"), ("LD_PRELOAD", joined), ("B", "2"), *OURS]


@pytest.mark.parametrize("reference", [{"configMapKeyRef": {"name": "a", "key": "b"}}, {}])
def test_ld_preload_from_a_reference_is_denied(reference):
    env = [{"name": "LD_PRELOAD", "valueFrom": reference}, {"name": "LD_PRELOAD", "value": "/a.so"}]
    decided = decide(pod(containers=[container(env=env)]))
    assert decided.code == "env-value-from"
    assert decided.message == (
        'container "train": LD_PRELOAD comes from valueFrom: set it as a plain value,'
        " so that the limiter's library can be put before it"
    )


def test_ld_preload_of_other_containers_is_theirs():
    reference = {"name": "LD_PRELOAD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    decided = decide(pod(containers=[container("task"), container("side", env=[reference])]))
    assert decided.container("side")["env"] == [
        reference,
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    ]


def test_a_limiter_without_a_library_leaves_ld_preload_alone():
    env = [("LD_PRELOAD", "/a.so"), ("LD_PRELOAD", "/b.so")]
    assert env_after(*variables(*env), policy_set=policies("limiter: none")) == env


def test_ld_preload_from_a_reference_is_only_denied_where_it_must_be_joined():
    env = {"name": "LD_PRELOAD", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    assert env_after(env, policy_set=policies("limiter: none")) == [("LD_PRELOAD", None)]


@pytest.mark.parametrize("env", [None, [], variables(("A", "1"))])
def test_containers_without_a_share_see_no_gpu(env):
    side = container("side", env=env)
    kept = [(entry["name"], entry["value"]) for entry in env or []]
    decided = decide(pod(containers=[container("task"), side], initContainers=[container("i", env=env)]))
    assert decided.env("side") == [*kept, ("NVIDIA_VISIBLE_DEVICES", "void")]
    assert decided.env("i") == [*kept, ("NVIDIA_VISIBLE_DEVICES", "void")]


def test_what_a_container_without_a_share_says_of_gpus_is_overwritten():
    env = variables(("NVIDIA_VISIBLE_DEVICES", "all"), ("A", "1"), ("NVIDIA_VISIBLE_DEVICES", "void"))
    decided = decide(pod(containers=[container("task"), container("side", env=env)]))
    assert decided.env("side") == [("A", "1"), ("NVIDIA_VISIBLE_DEVICES", "void")]


def test_the_policy_may_leave_other_containers_alone():
    env = variables(("NVIDIA_VISIBLE_DEVICES", "all"))
    found = pod(containers=[container("task"), container("side", env=env)])
    assert decide(found, policies("hideGpusFromOthers: false")).env("side") == [
        ("NVIDIA_VISIBLE_DEVICES", "all")
    ]
