"""The MiB that a share comes to."""

from tests.webhook.support import Webhook, decide, pod, policies


def test_the_share_is_rounded_down_and_the_reserve_taken_off():
    decided = decide(pod(fraction="0.375"), policies("memory: {reserveMiB: 100}"))
    assert decided.annotations["clearml-injector/memory-mib"] == str(23028 * 3 // 8 - 100)


def test_a_share_that_the_reserve_eats_up_is_denied_and_leaves_no_reservation():
    webhook = Webhook(policies("memory: {reserveMiB: 100000}"))
    decided = webhook.decide(pod(fraction="0.125"))
    assert {gpu.used for node in webhook.ledger.view().nodes for gpu in node.gpus} == {0}
    assert decided.code == "memory-too-small"
    assert decided.message == (
        "the share is 2878 MiB of a GPU with 23028 MiB, but policy default reserves 100000 MiB of it: use"
        " a larger fraction"
    )
