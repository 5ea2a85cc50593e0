"""Recent denials: an hour of them, by reason and namespace, bounded whatever is denied."""

from kube.reasons import Reason
from ledger.denial_counts import HOUR_SECONDS, MAX_KEPT, MINUTE_SECONDS, DenialWindow
from ledger.messages import DenialCount


def count(reason=Reason.LABEL, namespace="team", pods=1, message="why"):
    return DenialCount(reason, namespace, pods, message)


def test_a_denial_is_forgotten_after_an_hour_and_the_later_ones_stay():
    window = DenialWindow()
    window.add(count(pods=3, message="first"), 0.0)
    window.add(count(Reason.MEMORY), 1.0)
    window.add(count(message="second"), 2 * MINUTE_SECONDS)
    assert window.of_last_hour(2 * MINUTE_SECONDS) == [count(pods=4, message="second"), count(Reason.MEMORY)]
    assert window.of_last_hour(HOUR_SECONDS + 1.0) == [count(message="second")]
    assert window.of_last_hour(HOUR_SECONDS + 2 * MINUTE_SECONDS) == []


def test_what_is_no_denial_of_a_pod_in_a_namespace_is_dropped():
    window = DenialWindow()
    for bad in (
        count("made-up"),
        count(Reason.INJECTED),
        count(namespace=""),
        count(namespace="<b>"),
        count(namespace="n" * 64),
    ):
        window.add(bad, 0.0)
    assert window.of_last_hour(0.0) == []


def test_of_more_namespaces_than_are_kept_those_stay_that_were_denied_last():
    window = DenialWindow()
    window.add(count(namespace="again"), 0.0)
    for number in range(MAX_KEPT - 1):
        window.add(count(namespace=f"n{number}"), 1.0)
    window.add(count(namespace="again"), 2.0)
    window.add(count(namespace="new"), 3.0)
    found = window.of_last_hour(3.0)
    assert len(found) == MAX_KEPT
    assert found[:2] == [count(namespace="new"), count(namespace="again", pods=2)]
    assert "n0" not in {each.namespace for each in found}


def test_however_many_are_denied_there_is_one_count_for_each_minute():
    window = DenialWindow()
    for second in range(10_000):
        window.add(count(), float(second))
    [kept] = window._kept.values()
    assert len(kept.minutes) <= HOUR_SECONDS / MINUTE_SECONDS
    [found] = window.of_last_hour(9_999.0)
    assert HOUR_SECONDS - MINUTE_SECONDS <= found.pods <= HOUR_SECONDS
