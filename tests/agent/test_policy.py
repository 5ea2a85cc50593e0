"""What a node needs of a policy, read by a process that ends."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent.options import AgentOptions
from agent.policy import PolicyUnusableError, PolicyWatch, read_policy
from agent.policy_compiler import compile_policy
from agent.settings import LimiterPart
from policies.model.problems import PolicyError
from testbed.nodes.agent import LIMITS_BY_AGENT
from testbed.product import POLICIES
from tests.agent.support.kubelet import until


@pytest.fixture
def policies(tmp_path):
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "default.yaml").write_text(LIMITS_BY_AGENT)
    return folder


@pytest.fixture
def options(policies):
    return AgentOptions(policies=str(policies))


async def test_a_policy_with_limits_by_the_agent_brings_its_limiter(options):
    policy = await read_policy(options)
    assert (policy.resource, policy.slices_per_gpu, policy.reserve_mib) == ("nvidia.com/gpu-{index}", 8, 0)
    assert policy.limiter.preload == "/usr/local/vgpu/libvgpu.so"
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in policy.limiter.env


def test_with_limits_by_admission_nothing_is_put_over_what_the_pod_brings():
    assert compile_policy(POLICIES, "default").limiter == LimiterPart("none")
    with pytest.raises(LookupError, match='has no policy "other"'):
        compile_policy(POLICIES, "other")


def test_a_driver_of_claims_limits_each_card_by_its_number(tmp_path):
    """The form without a number yields to a number that the pod sets, by envFrom for instance."""
    (tmp_path / "default.yaml").write_text("kind: Policy\nname: default\nresources: {mode: dra}\n")
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in compile_policy(tmp_path, "default").limiter.env


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Policy\nname: default\nslicesPerGpu: none\n", r"default\.yaml:3: slicesPerGpu"),
        ("kind: Policy\nname: default\nresources: {mode: mig}\n", "gives MIG instances"),
    ],
)
def test_what_is_wrong_is_reported(policies, text, said):
    (policies / "default.yaml").write_text(text)
    with pytest.raises((PolicyError, LookupError), match=said):
        compile_policy(policies, "default")


async def test_the_compilers_words_are_the_error(options):
    with pytest.raises(PolicyUnusableError, match='has no policy "other": name one of its policies'):
        await read_policy(replace(options, policy="other"))


async def compiled_here(options):
    try:
        return compile_policy(Path(options.policies), options.policy)
    except PolicyError as error:
        raise PolicyUnusableError(str(error)) from error


async def test_only_another_policy_ends_the_watch_also_one_that_came_while_it_was_read(
    policies, options, monkeypatch, capfd
):
    monkeypatch.setattr("agent.policy.read_policy", compiled_here)
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)
    file, watch, early = policies / "default.yaml", PolicyWatch(options), PolicyWatch(options)
    policy = await compiled_here(options)
    waiting = asyncio.ensure_future(watch.until_changed(policy))
    for text in (LIMITS_BY_AGENT + "# a comment\n", "kind: Policy\nname: ["):
        stamp = watch._files
        file.write_text(text)
        await until(lambda stamp=stamp: watch._files != stamp)
    file.write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
    await asyncio.gather(waiting, early.until_changed(policy))
    assert "policies are broken: going on by the last good ones" in capfd.readouterr().err
