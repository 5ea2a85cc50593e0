"""Recent denials: the objects of an hour, by reason and namespace, bounded whatever is denied."""

from kube.reasons import Reason
from ledger.denial_counts import HOUR_SECONDS, DenialWindow
from ledger.messages import DenialCount, Denied


def denied(reason=Reason.LABEL, namespace="team", message="why", name="x"):
    return Denied(reason, namespace, message, name)


def count(reason=Reason.LABEL, namespace="team", pods=1, message="why"):
    return DenialCount(reason, namespace, pods, message)


def test_an_object_that_is_tried_a_hundred_times_is_one_and_is_forgotten_after_an_hour():
    window = DenialWindow()
    window.add(denied(Reason.MEMORY), 0.0)
    for second in range(100):
        window.add(denied(message="again"), float(second))
    window.add(denied(message="last", name="other"), 60.0)
    assert window.of_last_hour(100.0) == [count(pods=2, message="last"), count(Reason.MEMORY)]
    assert window.of_last_hour(HOUR_SECONDS + 60.0) == [count(message="last")]
    assert window.of_last_hour(HOUR_SECONDS + 99.0) == []


def test_what_is_no_denial_of_a_pod_in_a_namespace_is_dropped():
    window = DenialWindow()
    for reason in ("made-up", Reason.INJECTED):
        window.add(denied(reason), 0.0)
    for namespace in ("", "<b>", "n" * 64):
        window.add(denied(namespace=namespace), 0.0)
    assert window.of_last_hour(0.0) == []


def test_a_flood_of_one_namespace_displaces_no_other_and_of_many_namespaces_the_latest_stay():
    window = DenialWindow(most=4)
    window.add(denied(namespace="other"), 0.0)
    for number in range(10):
        window.add(denied(name=f"{number}"), 1.0)
    assert window.of_last_hour(1.0) == [count(pods=3), count(namespace="other")]
    for number in range(10):
        window.add(denied(namespace=f"n{number}"), 2.0)
    assert [each.namespace for each in window.of_last_hour(2.0)] == ["n9", "n8", "n7", "n6"]
