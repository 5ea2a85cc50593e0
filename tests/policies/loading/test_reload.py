"""Hot reload: the directory as the kubelet writes it, a whole set or nothing, the last good one kept."""

import asyncio
import re
import threading

import pytest

from policies.loading import reload as watch
from policies.loading.reload import LivePolicies, NoPoliciesError, Reload
from policies.model.problems import PolicyError
from tests.policies.kubelet import Mount

POLICY = "kind: Policy\nname: default\nmemory: {{reserveMiB: {n}}}\nenv: {{A: '{n}'}}\n"
OTHER = "kind: Policy\nname: other\nnamespaces: [n]\nmemory: {{reserveMiB: {n}}}\n"


@pytest.fixture
def mount(tmp_path):
    mount = Mount(tmp_path)
    mount.write(default=POLICY.format(n=1), other=OTHER.format(n=1))
    return mount


def reserves(policies):
    return policies.resolve("x", None, None).reserve_mib, policies.resolve("n", None, None).reserve_mib


def test_a_change_is_in_force_after_a_reload_and_reported_once(mount):
    reported = []
    live = LivePolicies(mount.folder, reported.append)
    before = live.current
    mount.write(default=POLICY.format(n=2), other=OTHER.format(n=2))
    assert live.reload() == Reload(live.current.digest, changed=True)
    assert reserves(live.current) == (2, 2)
    assert reserves(before) == (1, 1)
    assert live.reload() == Reload(live.current.digest)
    assert reported == [Reload(live.current.digest, changed=True)]


def test_it_is_known_since_when_a_set_is_in_force(mount):
    now = [100.0]
    live = LivePolicies(mount.folder, clock=lambda: now[0])
    assert live.since == 100.0
    now[0] = 200.0
    mount.write(default="# new comment\n" + POLICY.format(n=1), other=OTHER.format(n=1))
    live.reload()
    mount.write(default="kind: Polic\n")
    live.reload()
    assert live.since == 100.0
    mount.write(default=POLICY.format(n=2))
    live.reload()
    assert live.since == 200.0


def test_a_broken_set_keeps_the_last_good_one_and_says_why_once(mount):
    reported = []
    live = LivePolicies(mount.folder, reported.append)
    before = live.current
    mount.write(default=POLICY.format(n=2), other="kind: Policy\nname: other\nlimitr: none\n")
    assert live.reload().changed is False
    live.reload()
    assert live.current is before
    assert str(live.last.error) == 'other.yaml:3: limitr: unknown key (did you mean "limiter"?)'
    assert [str(reload.error) for reload in reported] == [str(live.last.error)]


def test_writes_during_reading_never_give_half_a_set(mount):
    """The kubelet swaps and deletes while the directory is read."""
    live = LivePolicies(mount.folder)
    done = threading.Event()

    def write():
        number = 2
        while not done.is_set():
            mount.write(default=POLICY.format(n=number), other=OTHER.format(n=number))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            live.reload()
            first, second = reserves(live.current)
            assert first == second
    finally:
        done.set()
        writer.join()
    assert live.reload().error is None


def test_with_a_controller_a_broken_set_is_waited_out(mount):
    mount.write(default="kind: Policy\nname: default\nlimitr: none\n")
    reported = []
    with pytest.raises(PolicyError, match="limitr"):
        LivePolicies(mount.folder)
    live = LivePolicies(mount.folder, reported.append, may_wait=True)
    with pytest.raises(NoPoliciesError):
        _ = live.current
    assert "limitr" in live.missing
    assert live.reload().error is live.last.error
    assert [reload.digest for reload in reported] == [None]
    mount.write(default=POLICY.format(n=3))
    assert live.reload() == Reload(live.current.digest, changed=True)
    assert (live.missing, reserves(live.current)) == (None, (3, 3))


def test_a_folder_that_is_gone_keeps_the_last_set_until_it_is_there_again(mount):
    live = LivePolicies(mount.folder)
    away = mount.folder.rename(mount.folder.with_name("recreated"))
    assert live.reload().error is not None
    away.rename(mount.folder)
    assert (live.reload().error, reserves(live.current)) == (None, (1, 1))


GOOD = {"default.yaml": POLICY.format(n=5).encode()}


def broken(mount):
    """Policies that begin on a broken set, and what they tell."""
    mount.write(default="kind: Policy\nname: default\nlimitr: none\n")
    reported = []
    return LivePolicies(mount.folder, reported.append, may_wait=True), reported


def test_a_set_of_somebody_elses_is_in_force_until_the_directory_holds_a_good_one(mount):
    live, reported = broken(mount)
    live.adopt(GOOD)
    assert reserves(live.current)[0] == 5
    assert (live.missing, live.last.adopted, "limitr" in str(live.last.error)) == (None, True, True)
    assert reported[-1] == live.last
    assert live.reload() == Reload(live.current.digest, live.last.error, adopted=True)
    assert (live.good_files, len(reported)) == (None, 2)
    mount.write(default="kind: Policy\nname: default\nlimitir: none\n")
    assert (live.reload().adopted, "limitir" in str(live.last.error)) == (True, True)
    mount.write(default=POLICY.format(n=3))
    assert live.reload() == Reload(live.current.digest, changed=True)
    assert reserves(live.current)[0] == 3
    assert live.good_files == {"default.yaml": POLICY.format(n=3).encode()}
    live.adopt(GOOD)
    assert (reserves(live.current)[0], live.last.adopted) == (3, False)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "has no policy file"),
        ({"default.yaml": b"kind: Policy\nname: default\nlimitr: none\n"}, "limitr"),
        ({"default.yaml": b"\xff"}, "default.yaml"),
        ({"default.yaml": b"#" * (1 << 20) + GOOD["default.yaml"]}, "default.yaml"),
        ({f"{n}.yaml": b"#" * (1 << 20) for n in range(5)}, "bytes of policy files"),
    ],
)
def test_what_a_directory_could_not_give_is_not_adopted(mount, files, problem):
    live, reported = broken(mount)
    with pytest.raises(PolicyError, match=re.escape(problem)):
        live.adopt(files)
    with pytest.raises(NoPoliciesError):
        _ = live.current
    assert len(reported) == 1


def test_who_watches_asks_elsewhere_only_while_there_is_no_set(mount, monkeypatch):
    monkeypatch.setattr(watch, "RELOAD_SECONDS", 0)
    live, _ = broken(mount)
    asked = []

    async def elsewhere():
        asked.append(live.missing)
        if len(asked) == 3:
            live.adopt(GOOD)

    async def main():
        watching = asyncio.create_task(live.watch(elsewhere))
        while live.missing:  # noqa: ASYNC110 nothing tells what the watch has seen
            await asyncio.sleep(0)
        mount.write(default=POLICY.format(n=7))
        while live.last.adopted:  # noqa: ASYNC110 likewise
            await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(main())
    assert [why is None for why in asked] == [False] * 3
