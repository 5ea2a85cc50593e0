"""What a node needs of a policy, read by a process that ends."""

import asyncio
from pathlib import Path

import pytest

from agent.options import AgentOptions
from agent.policy import PolicyUnusableError, PolicyWatch, read_policy
from agent.policy_compiler import compile_policy
from agent.settings import LimiterPart
from policies.model.problems import PolicyError
from testbed.nodes.agent import LIMITS_BY_AGENT
from testbed.process import WAIT_S, eventually
from testbed.product import POLICIES


async def compiled_here(options):
    """The policy, compiled in this process."""
    try:
        return compile_policy(Path(options.policies), options.policy)
    except PolicyError as error:
        raise PolicyUnusableError(str(error)) from error


@pytest.fixture
def here_and_quick(monkeypatch):
    """The watch compiles in this process, and looks at folders all the time."""
    monkeypatch.setattr("agent.policy.read_policy", compiled_here)
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)


@pytest.fixture
def policies(tmp_path):
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "default.yaml").write_text(LIMITS_BY_AGENT)
    return folder


def options(directory, name="default"):
    return AgentOptions(policies=str(directory), policy=name)


def test_a_policy_with_limits_by_the_agent_brings_its_limiter(policies):
    policy = asyncio.run(read_policy(options(policies)))
    assert (policy.resource, policy.slices_per_gpu, policy.reserve_mib) == ("nvidia.com/gpu-{index}", 8, 0)
    assert policy.limiter.preload == "/usr/local/vgpu/libvgpu.so"
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in policy.limiter.env


def test_with_limits_by_admission_nothing_is_put_over_what_the_pod_brings():
    assert compile_policy(POLICIES, "default").limiter == LimiterPart("none")


def test_a_driver_of_claims_limits_each_card_by_its_number(tmp_path):
    """The form without a number yields to a number that the pod sets, by envFrom for instance."""
    (tmp_path / "default.yaml").write_text("kind: Policy\nname: default\nresources: {mode: dra}\n")
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in compile_policy(tmp_path, "default").limiter.env


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (LIMITS_BY_AGENT, "other", 'has no policy "other": name one of its policies'),
        ("kind: Policy\nname: default\nslicesPerGpu: none\n", "default", r"default\.yaml:3: slicesPerGpu"),
        ("kind: Policy\nname: default\nresources: {mode: mig}\n", "default", "gives MIG instances"),
    ],
)
def test_what_is_wrong_is_reported(policies, text, name, said):
    (policies / "default.yaml").write_text(text)
    with pytest.raises((PolicyError, LookupError), match=said):
        compile_policy(policies, name)


async def test_the_compilers_words_are_the_error(policies):
    with pytest.raises(PolicyUnusableError, match='has no policy "other": name one of its policies'):
        await read_policy(options(policies, "other"))


async def test_a_compiler_whose_reader_is_cancelled_ends(policies, monkeypatch):
    # Warnings are errors in tests: a pipe or a process that is forgotten would be one.
    started, create = [], asyncio.create_subprocess_exec

    async def sleeping(*_, **pipes):
        started.append(await create("sleep", "600", **pipes))
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", sleeping)
    reading = asyncio.create_task(read_policy(options(policies)))
    await asyncio.to_thread(eventually, lambda: started, "it runs")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert started[0].returncode is not None


@pytest.mark.usefixtures("here_and_quick")
async def test_a_policy_that_changed_while_it_was_read_is_noticed(policies):
    watch = PolicyWatch(options(policies))
    policy = await compiled_here(options(policies))
    (policies / "default.yaml").write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
    async with asyncio.timeout(WAIT_S):
        await watch.until_changed(policy)


@pytest.mark.usefixtures("here_and_quick")
async def test_only_another_policy_ends_the_watch(policies, capfd):
    file, watch = policies / "default.yaml", PolicyWatch(options(policies))
    waiting = asyncio.ensure_future(watch.until_changed(await compiled_here(options(policies))))
    for text in (LIMITS_BY_AGENT + "# a comment\n", "kind: Policy\nname: ["):
        file.write_text(text)
        stamp = watch._files
        async with asyncio.timeout(WAIT_S):
            while watch._files == stamp:  # noqa: ASYNC110 - nobody sets an event
                await asyncio.sleep(0.01)
    file.write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert "policies are broken: going on by the last good ones" in capfd.readouterr().err
