"""The number of the second lock's tables, which the chart writes next to the policies they are made of."""

import pytest

from policies.loading.loader import parse_policies
from policies.loading.reload import LOCK_WAIT_READINGS, LivePolicies, Reload
from policies.loading.sources import LOCK_FILE
from policies.model.problems import PolicyError
from tests.policies.kubelet import Mount
from tests.policies.support import DEFAULT, policy_set

POLICY = "kind: Policy\nname: default\nmemory: {{reserveMiB: {n}}}\n"


@pytest.fixture
def mount(tmp_path):
    return Mount(tmp_path)


def write(mount, number, reserve=1):
    """The policies and the lock's number, as one change."""
    files = {LOCK_FILE: number} if number is not None else {}
    mount.write(others=files, default=POLICY.format(n=reserve))


def test_pods_carry_the_number_behind_the_digest():
    files = {"default.yaml": DEFAULT, LOCK_FILE: b"0123abcd\n"}
    found, without = parse_policies(files), policy_set()
    assert found.digest == f"{without.digest}.0123abcd"
    assert found.resolve("any", None, None).marker == f"default@{without.digest}.0123abcd"


@pytest.mark.parametrize("text", [b"", b"0123abc", b"0123ABCD", b"0123abcd.x", b"0123abcd " * 9, b"\xff" * 8])
def test_what_is_no_number_is_a_mistake(text):
    with pytest.raises(
        PolicyError, match="second-lock: must be 8 hexadecimal digits, as the chart writes them"
    ):
        parse_policies({"default.yaml": DEFAULT, LOCK_FILE: text})


def test_policies_of_another_number_are_in_force_when_the_api_servers_know_it_too(mount):
    """Helm writes the lock seconds after the policies: pods of a number that is not there yet are refused."""
    write(mount, "00000001")
    reported = []
    live = LivePolicies(mount.folder, reported.append)
    before = live.current
    write(mount, "00000002", reserve=2)
    assert [live.reload() for _ in range(LOCK_WAIT_READINGS)] == [Reload(before.digest)] * LOCK_WAIT_READINGS
    assert live.current is before
    assert live.reload() == Reload(live.current.digest, changed=True)
    assert live.current.digest.endswith(".00000002")
    assert live.reload() == Reload(live.current.digest)
    assert [reload.digest for reload in reported] == [live.current.digest]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("00000001", "00000001", id="a change that the lock does not look at"),
        pytest.param(None, "00000001", id="a lock that comes"),
        pytest.param("00000001", None, id="a lock that goes"),
    ],
)
def test_only_another_lock_is_waited_for(mount, before, after):
    write(mount, before)
    live = LivePolicies(mount.folder)
    write(mount, after, reserve=2)
    assert live.reload().changed is True
    assert live.current.resolve("any", None, None).reserve_mib == 2


def test_a_broken_set_meanwhile_is_reported_and_ends_the_wait(mount):
    write(mount, "00000001")
    live = LivePolicies(mount.folder)
    write(mount, "00000002", reserve=2)
    live.reload()
    write(mount, "00000003", reserve="much")
    for _ in range(LOCK_WAIT_READINGS + 1):
        assert "reserveMiB" in str(live.reload().error)
    assert live.current.digest.endswith(".00000001")
