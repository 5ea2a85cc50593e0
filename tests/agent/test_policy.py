"""What a node needs of a policy, read by a process that ends."""

import asyncio

import msgspec
import pytest

from agent import child_process
from agent.options import AgentOptions
from agent.policy import PolicyUnusableError, PolicyWatch, begin_reading, read_policy
from agent.policy_cache import KEPT, digest_of
from agent.private_folder import UntrustedError, private_folder, read_own
from agent.settings import LimiterPart
from testbed.nodes.agent import LIMITS_BY_AGENT
from testbed.process import WAIT_S
from testbed.product import POLICIES
from tests.agent.support.child import Child


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Names the modules that run, in this process."""
    begun = []

    class Watched(Child):
        def __init__(self, module, *arguments):
            begun.append(module)
            super().__init__(module, *arguments)

    monkeypatch.setattr("agent.policy.Child", Watched)
    return begun


@pytest.fixture
def policies(tmp_path):
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "default.yaml").write_text(LIMITS_BY_AGENT)
    return folder


def options(directory, name="default", state_dir="/dev/null/none"):
    return AgentOptions(policies=str(directory), policy=name, state_dir=str(state_dir))


def read(directory, name="default", state_dir="/dev/null/none"):
    return asyncio.run(read_policy(begin_reading(options(directory, name, state_dir))))


def test_a_policy_with_limits_by_the_agent_brings_its_limiter(policies):
    policy = read(policies)
    assert (policy.resource, policy.slices_per_gpu, policy.reserve_mib) == ("nvidia.com/gpu-{index}", 8, 0)
    assert policy.limiter.preload == "/usr/local/vgpu/libvgpu.so"
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in policy.limiter.env


def test_with_limits_by_admission_nothing_is_put_over_what_the_pod_brings():
    assert read(POLICIES).limiter == LimiterPart("none")


def test_a_driver_of_claims_limits_each_card_by_its_number(tmp_path):
    """The form without a number yields to a number that the pod sets, by envFrom for instance."""
    (tmp_path / "default.yaml").write_text("kind: Policy\nname: default\nresources: {mode: dra}\n")
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m") in read(tmp_path).limiter.env


def test_it_is_compiled_by_a_process_that_ends(policies, monkeypatch):
    here = read(policies)
    monkeypatch.setattr("agent.policy.Child", child_process.Child)
    assert read(policies) == here


def test_what_is_wrong_is_reported(policies):
    with pytest.raises(PolicyUnusableError, match='has no policy "other": name one of its policies'):
        read(policies, "other")
    (policies / "default.yaml").write_text("kind: Policy\nname: default\nslicesPerGpu: none\n")
    with pytest.raises(PolicyUnusableError, match=r"default\.yaml:3: slicesPerGpu"):
        read(policies)


def test_a_policy_that_changed_before_the_watch_began_is_noticed(policies, monkeypatch):
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)

    async def change():
        reading = begin_reading(options(policies))
        policy = await read_policy(reading)
        (policies / "default.yaml").write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
        async with asyncio.timeout(WAIT_S):
            await PolicyWatch(options(policies), policy, reading.files).until_changed()

    asyncio.run(change())


def test_only_another_policy_ends_the_watch(policies, monkeypatch, capfd):
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)
    file = policies / "default.yaml"
    watch = PolicyWatch(options(policies), read(policies))

    async def change():
        waiting = asyncio.ensure_future(watch.until_changed())
        for text in (LIMITS_BY_AGENT + "# a comment\n", "kind: Policy\nname: ["):
            file.write_text(text)
            stamp = watch._files
            async with asyncio.timeout(WAIT_S):
                while watch._files == stamp:  # noqa: ASYNC110 - nobody sets an event
                    await asyncio.sleep(0.01)
        file.write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
        async with asyncio.timeout(WAIT_S):
            await waiting

    asyncio.run(change())
    assert "policies are broken: going on by the last good ones" in capfd.readouterr().err


def test_a_change_that_no_process_could_compile_is_compiled_later(policies, monkeypatch):
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)
    watch = PolicyWatch(options(policies), read(policies))
    (policies / "default.yaml").write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")

    def no_process(*_):
        raise BlockingIOError("no process starts")

    async def change():
        with monkeypatch.context() as broken:
            broken.setattr("agent.policy.Child", no_process)
            with pytest.raises(BlockingIOError):
                await watch.until_changed()
        # A background task that raised is run again.
        async with asyncio.timeout(WAIT_S):
            await watch.until_changed()

    asyncio.run(change())


def test_a_policy_of_mig_instances_is_none_for_the_agent(policies):
    (policies / "default.yaml").write_text("kind: Policy\nname: default\nresources: {mode: mig}\n")
    with pytest.raises(PolicyUnusableError, match="gives MIG instances"):
        read(policies)


def test_an_agent_that_starts_again_compiles_nothing(policies, tmp_path, compiled):
    first = read(policies, state_dir=tmp_path)
    assert read(policies, state_dir=tmp_path) == first
    assert compiled == ["agent.policy_compiler"]


CHANGES = {
    "another text": lambda folder: (folder / "default.yaml").write_text(LIMITS_BY_AGENT + "# more\n"),
    "another file": lambda folder: (folder / "more.yaml").write_text(
        LIMITS_BY_AGENT.replace("name: default", "name: more")
    ),
    "another version": None,
    "another policy": None,
    "rubbish": None,
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_compiles_where_anything_differs(what, policies, tmp_path, compiled, monkeypatch):
    other = LIMITS_BY_AGENT.replace("name: default", "name: other")
    (policies / "other.yaml").write_text(other)
    read(policies, state_dir=tmp_path)
    if (change := CHANGES[what]) is not None:
        change(policies)
    if what == "another version":
        monkeypatch.setattr("agent.policy_cache.VERSION", "0.0.0")
    if what == "rubbish":
        (private_folder(tmp_path) / KEPT).write_bytes(b'{"digest": "\xff')
    name = "other" if what == "another policy" else "default"
    assert read(policies, name, state_dir=tmp_path).name == name
    assert len(compiled) == 2


def test_policies_that_broke_are_not_run_by_what_was_kept(policies, tmp_path):
    read(policies, state_dir=tmp_path)
    (policies / "default.yaml").write_text("kind: Policy\nname: [")
    with pytest.raises(PolicyUnusableError):
        read(policies, state_dir=tmp_path)


def test_a_kept_policy_is_soon_compiled_all_the_same(policies, tmp_path, monkeypatch):
    """Another build of the same version may make another policy of the same files."""
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.01)
    read(policies, state_dir=tmp_path)
    kept = private_folder(tmp_path) / KEPT
    kept.write_text(kept.read_text().replace('"slices_per_gpu":8', '"slices_per_gpu":4'))

    async def start():
        reading = begin_reading(options(policies, state_dir=tmp_path))
        policy = await read_policy(reading)
        assert policy.slices_per_gpu == 4
        async with asyncio.timeout(WAIT_S):
            await PolicyWatch(options(policies, state_dir=tmp_path), policy, reading.files).until_changed()

    asyncio.run(start())
    assert read(policies, state_dir=tmp_path).slices_per_gpu == 8


def test_a_policy_that_another_user_may_have_kept_is_not_read(policies, tmp_path, compiled):
    read(policies, state_dir=tmp_path)
    kept = private_folder(tmp_path) / KEPT
    kept.rename(tmp_path / KEPT)
    kept.symlink_to(tmp_path / KEPT)
    assert read(policies, state_dir=tmp_path).slices_per_gpu == 8
    assert len(compiled) == 2
    with pytest.raises(UntrustedError):
        read_own(kept)


def test_a_policy_that_was_compiled_now_is_confirmed_at_once(policies):
    async def start():
        reading = begin_reading(options(policies))
        watch = PolicyWatch(options(policies), await read_policy(reading), reading.files)
        return await watch.is_confirmed(0)

    assert asyncio.run(start())


def test_a_kept_policy_is_confirmed_by_compiling_it_and_not_before(policies, tmp_path):
    read(policies, state_dir=tmp_path)

    async def start():
        reading = begin_reading(options(policies, state_dir=tmp_path))
        watch = PolicyWatch(options(policies, state_dir=tmp_path), await read_policy(reading), reading.files)
        before = await watch.is_confirmed(0)
        following = asyncio.ensure_future(watch.until_changed())
        after = await watch.is_confirmed(WAIT_S)
        following.cancel()
        return before, after

    assert asyncio.run(start()) == (False, True)


def test_a_kept_policy_that_does_not_compile_is_tried_again_and_not_confirmed(
    policies, tmp_path, compiled, capfd
):
    """Somebody wrote it with the digest of policies that are broken."""
    read(policies, state_dir=tmp_path)
    (policies / "default.yaml").write_text("kind: Policy\nname: [")
    kept = private_folder(tmp_path) / KEPT
    forged = msgspec.json.decode(kept.read_bytes())
    forged["digest"] = digest_of({"default.yaml": (policies / "default.yaml").read_bytes()})
    kept.write_bytes(msgspec.json.encode(forged))

    async def start():
        reading = begin_reading(options(policies, state_dir=tmp_path))
        watch = PolicyWatch(options(policies, state_dir=tmp_path), await read_policy(reading), reading.files)
        changes = [await watch._has_changed() for _ in range(2)]
        return changes, await watch.is_confirmed(0)

    assert asyncio.run(start()) == ([False, False], False)
    assert len(compiled) == 3
    assert "policies are broken: no share is given" in capfd.readouterr().err
