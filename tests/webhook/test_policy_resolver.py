"""What pods follow is remembered by namespace and queue: as right as the policies, and bounded."""

import pytest

from tests.webhook.support import policies
from webhook.admission.denial import Denial, Reason
from webhook.policy_resolver import MAX_KEPT, PolicyResolver

QUOTAS = policies("quotas: {namespaces: {team: {slices: 8}}, queues: {fast lane: {slices: 4}}}")


class Counted:
    """Policies that count how often they are asked."""

    def __init__(self, of=QUOTAS):
        self.asked = []
        self._of = of

    def resolve(self, *pod):
        self.asked.append(pod)
        return self._of.resolve(*pod)


@pytest.mark.parametrize(
    "pod",
    [("team", None, None), ("team", "fast-lane", None), ("other", "FAST_lane", "id"), ("other", None, "id")],
)
def test_a_pod_follows_the_same_the_first_and_every_other_time(pod):
    counted = Counted()
    following = PolicyResolver(lambda: counted)
    first, again = following.find(*pod), following.find(*pod)
    assert again is first
    assert first.policy == QUOTAS.resolve(*pod)
    assert counted.asked == [pod]


def test_namespace_name_and_id_of_a_queue_are_distinguished():
    counted = Counted()
    following = PolicyResolver(lambda: counted)
    pods = [("a", None, None), ("b", None, None), ("a", "b", None), ("a", None, "b"), ("a", "", None)]
    found = [following.find(*pod) for pod in pods]
    assert [each.queues for each in found] == [(), (), ("b",), ("#b",), ()]
    assert counted.asked == pods


def test_other_policies_are_followed_at_once():
    in_force = policies("quotas: {namespaces: {team: {slices: 8}}}")
    following = PolicyResolver(lambda: in_force)
    assert following.find("team", None, None).policy.quotas
    in_force = policies("quotas: {}")
    assert not following.find("team", None, None).policy.quotas


def test_a_label_that_is_none_is_refused_each_time_and_never_kept():
    counted = Counted()
    following = PolicyResolver(lambda: counted)
    for text in ("x" * 64, "-x", "x" * 1_000_000, "é"):
        for labels in ((text, None), (None, text), ("x", text)):
            refused = [following.find("team", *labels) for _ in range(2)]
            assert all(isinstance(each, Denial) and each.reason is Reason.UNREADABLE for each in refused)
    assert counted.asked == []
    assert not following._kept


def test_however_many_queues_come_few_are_kept():
    following = PolicyResolver(lambda: QUOTAS)
    for number in range(2 * MAX_KEPT + 10):
        assert following.find("team", None, str(number)).queues == (f"#{number}",)
        assert len(following._kept) <= MAX_KEPT
