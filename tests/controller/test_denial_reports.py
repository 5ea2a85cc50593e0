"""What webhooks tell the leader of the pods that they denied: counted, and bounded."""

import msgspec

from ledger.messages import MAX_DENIAL_REPORT_BYTES, MAX_DENIALS, DenialCount, DenialReport, Denied
from ledger.placement_request import MAX_OWNER
from tests.controller.test_placement_api import api, ask
from tests.controller.watch.test_ledger_store import ready_state

DENIED = Denied("over-quota", "team", "wait, or ask the admin", "of-a-job")


def tell(api, *denials):
    return ask(api, "POST", "/v1/denials", msgspec.json.encode(DenialReport(list(denials))))


def test_the_leader_keeps_what_webhooks_deny_but_not_what_no_webhook_of_ours_says():
    process = api(ready_state("a")[0])
    strange = [Denied("made-up", "team", "x"), Denied("over-quota", "<b>", "x")]
    assert tell(process, DENIED, *strange).status_code == 200
    assert tell(process, DENIED).status_code == 200
    assert process.denials() == [DenialCount("over-quota", "team", 1, "wait, or ask the admin")]


def test_a_standby_takes_no_denials_and_says_that_it_knows_of_none():
    standby = api(ready_state("a")[0], leads=False)
    reply = tell(standby, DENIED)
    assert (reply.status_code, reply.json()) == (409, {"leader": "https://other:9443"})
    assert standby.denials() is None


def test_a_report_is_bounded_in_entries_and_in_bytes_and_the_largest_of_a_webhook_fits():
    process = api(ready_state("a")[0])
    assert tell(process, *[DENIED] * (MAX_DENIALS + 1)).status_code == 400
    assert process.denials() == []
    reply = ask(process, "POST", "/v1/denials", b" " * (MAX_DENIAL_REPORT_BYTES + 1))
    assert (reply.status_code, reply.text) == (413, "the body is over 131072 bytes\n")
    largest = Denied("r" * 63, "n" * 63, "\U0001f600" * 200, "o" * MAX_OWNER)
    assert tell(process, *[largest] * MAX_DENIALS).status_code == 200
