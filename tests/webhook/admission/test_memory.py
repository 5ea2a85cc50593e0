"""The label for memory: the fewest slices that hold it on the chosen kind of GPU, the limit as asked."""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.support import LABEL, Webhook, decide, pod, policies
from tests.webhook.support.gpu_pods import MEMORY, asking_memory, expressions, slices_of, webhook_of

OTHER_TEXTS = [
    *("4.5Gi", "4.5G", "4T", "1e3Mi", "0", "0Gi", "04Gi", "4", "4gi", "-4Gi", "+4Gi", "4 Gi", " 4Gi", "4Ti"),
    *("4Ki", "", "Gi", "\u0664Gi", "4Gi\n", "1000000000Mi", "99999999999999Gi", "1073741824M"),
]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        *((text, '"512Mi" or "4Gi"') for text in OTHER_TEXTS),
        # Decimal amounts, where the policy does not take them: as much in Mi.
        ("4G", '"3814Mi"'),
        ("1024M", '"976Mi"'),
    ],
)
def test_any_other_text_is_denied_in_one_line(text, advice):
    decided = decide(asking_memory(text))
    shown = text.replace("\n", "?")
    assert decided.code == "label-not-allowed"
    rule = f"is not a whole number of Mi or Gi: use a value such as {advice}"
    assert decided.message == f'{MEMORY} "{shown}" {rule}'


def test_both_labels_are_denied():
    decided = decide(pod(fraction="0.500", labels={MEMORY: "4Gi"}))
    assert (decided.code, decided.message) == (
        "label-not-allowed",
        f"{LABEL} and {MEMORY} both request a share: keep one of the labels",
    )


@pytest.mark.parametrize(
    ("keys", "text", "expected"),
    [
        ("memory: {min: 1Gi}", "512Mi", "policy default allows at least 1Gi: use that"),
        ("memory: {min: 1Gi, max: 1536Mi}", "2Gi", "allows at least 1Gi and at most 1536Mi: use that"),
        ("memory: {allowed: false}", "2Gi", f"no memory amounts: use {LABEL} instead, or ask the admin"),
        ("fractions: {}", "2Gi", "allows no memory amounts: ask the admin"),
    ],
)
def test_the_policy_bounds_what_may_be_asked(keys, text, expected):
    decided = decide(asking_memory(text), policies(keys))
    assert decided.code == "label-not-allowed"
    assert expected in decided.message
    assert len(decided.message) <= 200


ASSUMED = "assume: {gpusPerNode: 2, gpuMemoryMiB: 81920}"
AWAY_FROM_24 = {("nvidia.com/gpu.memory", "NotIn"): ["24576"]}


def test_slices_of_assumed_cards_never_land_on_known_ones_on_which_they_hold_less():
    webhook = webhook_of(gpu_node("small", mib=24576), policy_set=policies(ASSUMED))
    decided = webhook.decide(asking_memory("30Gi"))
    assert (slices_of(decided), expressions(decided)) == (3, AWAY_FROM_24)


@pytest.mark.parametrize("dry_run", [True, False])
def test_who_writes_an_assumed_share_by_hand_is_kept_away_from_them_too(dry_run):
    written = webhook_of(policy_set=policies(ASSUMED)).decide(asking_memory("30Gi")).stored
    assert "affinity" not in written["spec"]
    webhook = webhook_of(gpu_node("small", mib=24576), policy_set=policies(ASSUMED))
    assert expressions(webhook.decide(written, dryRun=dry_run)) == AWAY_FROM_24


def test_clearmls_agent_reports_the_part_of_a_gpu_and_not_a_whole_one():
    of_clearml = asking_memory("6Gi")
    of_clearml["metadata"]["labels"]["clearml-agent-queue"] = "id-1"
    webhook = webhook_of(gpu_node("a", mib=24576))
    assert dict(webhook.decide(of_clearml).env())["CLEARML_AGENT_GPU_FRACTIONS"] == "0.250"
    assert "CLEARML_AGENT_GPU_FRACTIONS" not in dict(webhook.decide(asking_memory("6Gi"), uid="2").env())


@pytest.mark.parametrize(("text", "mib"), [("4G", 3814), ("2M", 1), ("4Gi", 4096)])
def test_decimal_amounts_are_what_they_say_rounded_down_where_the_policy_takes_them(text, mib):
    under = policies("memory: {decimal: true}")
    webhook = webhook_of(gpu_node("a", mib=24576), policy_set=under)
    decided = webhook.decide(asking_memory(text))
    assert slices_of(decided) == -(-mib * 8 // 24576)
    assert decided.annotations["clearml-injector/memory-mib"] == str(mib)


def test_the_share_is_rounded_down_and_the_reserve_taken_off():
    decided = decide(pod(fraction="0.375"), policies("memory: {reserveMiB: 100}"))
    assert decided.annotations["clearml-injector/memory-mib"] == str(23028 * 3 // 8 - 100)


def test_a_share_that_the_reserve_eats_up_is_denied_and_leaves_no_reservation():
    webhook = Webhook(policies("memory: {reserveMiB: 100000}"))
    decided = webhook.decide(pod(fraction="0.125"))
    assert webhook.ledger.totals().used == 0
    assert decided.code == "memory-too-small"
    assert decided.message == (
        "the share is 2878 MiB of a GPU with 23028 MiB, but policy default reserves 100000 MiB of it: use"
        " a larger fraction"
    )
