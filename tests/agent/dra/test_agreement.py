"""The hook by which a container with parts of different sizes does not start, as a runtime calls it."""

import json

import msgspec
import pytest

from agent.dra.agreement import agreement_hook
from agent.gpu import Gpu
from agent.settings import LimiterPart
from agent.shares import Share
from tests.agent.support.node import PER_GPU, run_hook

SHARE = Share(Gpu(0, "GPU-0", "NVIDIA A100", 40960), 4, 20480)
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"


OTHER, NEITHER = f"{LIMIT}=40960m", "PATH=/bin"


def start(folder, env, args=("sh",), hook_env=()):
    """Call the hook for a container with these variables; return its exit code and what it says."""
    [hook] = agreement_hook(SHARE, PER_GPU)
    process = {"user": {"uid": 0}, "args": list(args), "env": list(env), "cwd": "/"}
    hooks = {"createRuntime": [{"path": "/bin/true", "env": list(hook_env)}]}
    config = {"ociVersion": "1.2.0", "process": process, "hooks": hooks}
    (folder / "config.json").write_text(json.dumps(config, separators=(",", ":")))
    ended = run_hook(hook, {"ociVersion": "1.2.0", "id": "c", "pid": 1, "bundle": str(folder)})
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("env", [[NEITHER, f"{LIMIT}=20480m"], ["A=]", f"{LIMIT}=20480m", "B=c"]])
def test_a_container_with_its_own_limit_starts(tmp_path, env):
    assert start(tmp_path, env) == (0, "")


@pytest.mark.parametrize(
    ("env", "more"),
    [
        ([NEITHER, OTHER], {}),
        ([NEITHER], {}),
        ([NEITHER, f"{LIMIT}=20480m9"], {}),
        ([NEITHER, OTHER], {"args": ("sh", f"{LIMIT}=20480m")}),
        ([NEITHER, OTHER], {"args": ("sh", f',"env":["PATH=/bin","{LIMIT}=20480m"]')}),
        ([NEITHER, f'A=x,"{LIMIT}=20480m"', OTHER], {}),
        ([NEITHER], {"hook_env": ["A=b", f"{LIMIT}=2048m"]}),
    ],
)
def test_one_with_the_limit_of_another_card_does_not_whatever_its_author_writes(tmp_path, env, more):
    code, said = start(tmp_path, env, **more)
    assert code == 1
    assert "name one request of the ResourceClaim in resources.claims" in said


def test_a_limiter_without_the_memory_in_a_variable_needs_none():
    assert not agreement_hook(SHARE, msgspec.structs.replace(PER_GPU, limiter=LimiterPart("none")))
