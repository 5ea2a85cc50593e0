"""What a node needs of a policy, read by a process that ends."""

import asyncio

import pytest

from agent.policy import PolicyUnusableError, PolicyWatch, begin_reading, read_policy
from agent.settings import LimiterPart
from testbed.nodes.agent import LIMITS_BY_AGENT
from testbed.product import POLICIES


@pytest.fixture
def policies(tmp_path):
    (tmp_path / "default.yaml").write_text(LIMITS_BY_AGENT)
    return tmp_path


def read(directory, name="default"):
    return asyncio.run(read_policy(begin_reading(str(directory), name)))


def test_a_policy_with_limits_by_the_agent_brings_its_limiter(policies):
    policy = read(policies)
    assert (policy.resource, policy.slices_per_gpu, policy.reserve_mib) == ("nvidia.com/gpu-{index}", 8, 0)
    assert policy.limiter.preload == "/usr/local/vgpu/libvgpu.so"
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in policy.limiter.env


def test_with_limits_by_admission_nothing_is_put_over_what_the_pod_brings():
    assert read(POLICIES).limiter == LimiterPart("none")


def test_what_is_wrong_is_said(policies):
    with pytest.raises(PolicyUnusableError, match='has no policy "other": name one of its policies'):
        read(policies, "other")
    (policies / "default.yaml").write_text("kind: Policy\nname: default\nslicesPerGpu: none\n")
    with pytest.raises(PolicyUnusableError, match=r"default\.yaml:3: slicesPerGpu"):
        read(policies)


def test_a_policy_that_changed_before_the_watch_began_is_noticed(policies, monkeypatch):
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)

    async def change():
        reading = begin_reading(str(policies), "default")
        policy = await read_policy(reading)
        (policies / "default.yaml").write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
        async with asyncio.timeout(60):
            await PolicyWatch(str(policies), "default", policy, reading.files).until_changed(lambda: None)

    asyncio.run(change())


def test_only_another_policy_ends_the_watch(policies, monkeypatch, capfd):
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)
    file = policies / "default.yaml"
    watch = PolicyWatch(str(policies), "default", read(policies))

    async def change():
        waiting = asyncio.ensure_future(watch.until_changed(lambda: None))
        for text in (LIMITS_BY_AGENT + "# a comment\n", "kind: Policy\nname: ["):
            file.write_text(text)
            stamp = watch._files
            async with asyncio.timeout(60):
                while watch._files == stamp:  # noqa: ASYNC110 - nobody sets an event
                    await asyncio.sleep(0.01)
        file.write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
        async with asyncio.timeout(60):
            await waiting

    asyncio.run(change())
    assert "policies are broken: going on by the last good ones" in capfd.readouterr().err


def test_a_policy_of_mig_instances_is_none_for_the_agent(policies):
    (policies / "default.yaml").write_text("kind: Policy\nname: default\nresources: {mode: mig}\n")
    with pytest.raises(PolicyUnusableError, match="gives MIG instances"):
        read(policies)
