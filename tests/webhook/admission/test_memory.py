"""The label for memory: the fewest slices that hold it on the chosen kind of GPU, the limit as asked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.problems import PolicyError
from tests.effort import examples
from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import LABEL, Webhook, container, decide, pod, policies, review_of
from tests.webhook.support.gpu_pods import (
    JOBS,
    MEMORY,
    asking_memory,
    bound_to,
    limits,
    pooled_node,
    slices_of,
    webhook_of,
)

KINDS = {"T4": 15360, "L4": 23034, "A100-40": 40960, "A100-80": 81920, "H200": 143771}
POOLED = "resources: {mode: pooled}"


@pytest.mark.parametrize("mode", ["per-gpu", "pooled"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "mib"),
    [("1Mi", 1), ("512Mi", 512), ("1Gi", 1024), ("4Gi", 4096), ("11Gi", 11264), ("15Gi", 15360)],
)
def test_every_row_of_the_table(text, mib, kind, mode):
    gpu_mib = KINDS[kind]
    node = gpu_node("a", mib=gpu_mib) if mode == "per-gpu" else pooled_node("a", mib=gpu_mib)
    decided = webhook_of(node, policy_set=policies(f"resources: {{mode: {mode}}}")).decide(
        asking_memory(text)
    )
    slices = slices_of(decided)
    assert slices * gpu_mib >= mib * 8
    assert (slices - 1) * gpu_mib < mib * 8
    assert decided.annotations["clearml-injector/memory-mib"] == str(mib)
    assert decided.annotations["clearml-injector/slices"] == str(slices)
    index = "_0" if mode == "per-gpu" else ""
    assert (f"CUDA_DEVICE_MEMORY_LIMIT{index}", f"{mib}m") in decided.env()
    assert bound_to(decided) == [gpu_mib]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "4.5Gi",
            "4.5G",
            "4T",
            "1e3Mi",
            "0",
            "0Gi",
            "04Gi",
            "4",
            "4 Gi",
            " 4Gi",
            "4Gi ",
            "4gi",
            "4GI",
            "-4Gi",
            "+4Gi",
        ),
        *("4Ti", "4Ki", "", "Gi", "\u0664Gi", "4Gi\n", "1000000000Mi", "99999999999999Gi"),
    ],
)
def test_any_other_text_is_denied_in_one_line(text):
    decided = decide(asking_memory(text))
    shown = text.replace("\n", "?")
    assert decided.code == "label-not-allowed"
    assert decided.message == (
        f'{MEMORY} "{shown}" is not a whole number of Mi or Gi: use a value such as "512Mi" or "4Gi"'
    )


def test_both_labels_are_denied():
    decided = decide(pod(fraction="0.500", labels={MEMORY: "4Gi"}))
    assert (decided.code, decided.message) == (
        "label-not-allowed",
        f"{LABEL} and {MEMORY} both request a share: keep one of the labels",
    )


def test_more_than_the_largest_card_is_denied_with_what_to_do():
    decided = webhook_of(gpu_node("a", mib=23034), gpu_node("b", mib=40960)).decide(asking_memory("41Gi"))
    assert decided.code == "no-matching-node"
    assert decided.message.endswith("on 2 nodes a GPU has less than the required 41984 MiB: request less")


@pytest.mark.parametrize(
    ("keys", "text", "expected"),
    [
        ("memory: {min: 1Gi}", "512Mi", "policy default allows at least 1Gi: use that"),
        ("memory: {max: 40Gi}", "41Gi", "policy default allows at most 40Gi: use that"),
        ("memory: {min: 1Gi, max: 1536Mi}", "2Gi", "allows at least 1Gi and at most 1536Mi: use that"),
        (
            "memory: {allowed: false}",
            "2Gi",
            f"allows no memory amounts: use {LABEL} instead, or ask the admin",
        ),
        ('fractions: {"0.500": 4}', "2Gi", f"allows no memory amounts: use {LABEL} instead, or ask"),
        ("fractions: {}", "2Gi", "allows no memory amounts: ask the admin"),
    ],
)
def test_the_policy_bounds_what_may_be_asked(keys, text, expected):
    decided = decide(asking_memory(text), policies(keys))
    assert decided.code == "label-not-allowed"
    assert expected in decided.message
    assert len(decided.message) <= 200


def test_a_policy_with_a_table_may_allow_memory_too():
    assert decide(asking_memory("2Gi"), policies('fractions: {"0.500": 4}\nmemory: {allowed: true}')).allowed


def test_all_slices_of_a_card_are_limited_all_the_same():
    decided = webhook_of(gpu_node("a", mib=15360)).decide(asking_memory("15000Mi"))
    assert slices_of(decided) == 8
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "15000m") in decided.env()


def test_the_reserve_is_held_in_addition_to_what_was_asked():
    decided = webhook_of(gpu_node("a", mib=40960), policy_set=policies("memory: {reserveMiB: 100}")).decide(
        asking_memory("5Gi")
    )
    assert slices_of(decided) == 2
    assert decided.annotations["clearml-injector/memory-mib"] == "5120"


def test_of_kinds_with_room_the_one_is_taken_on_which_it_costs_expected_pods_least():
    facts = [gpu_node("big", mib=81920), gpu_node("small", mib=24576), gpu_node("middle", mib=40960)]
    decided = webhook_of(*facts).decide(asking_memory("5Gi"))
    assert decided.outcome.injection.placement.node == "middle"
    assert slices_of(decided) == 1
    full = holder("other", "middle", (0, 8), (1, 8))
    decided = webhook_of(*facts, holders=[full]).decide(asking_memory("5Gi"))
    # One slice of ten GiB costs the pods that are expected less than two of three.
    assert (decided.outcome.injection.placement.node, slices_of(decided)) == ("big", 1)


def test_a_pod_may_land_on_every_kind_on_which_it_takes_the_same_slices_and_no_other():
    facts = [gpu_node(str(mib), mib=mib) for mib in (81920, 81559, 40960, 40536, 24576)]
    decided = webhook_of(*facts).decide(asking_memory("10Gi"))
    assert (slices_of(decided), bound_to(decided)) == (1, [81920])
    assert bound_to(webhook_of(*facts).decide(asking_memory("10194Mi"))) == [81559, 81920]


def test_a_pod_that_changed_its_slices_is_placed_again():
    webhook = webhook_of(pooled_node("a", mib=40960), policy_set=policies(POOLED))
    stored = webhook.decide(asking_memory("6Gi")).stored
    resources = stored["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "2"}
    resources["limits"] = resources["requests"] = {"nvidia.com/gpu": "1"}
    again = webhook.decide(stored, uid="second")
    assert limits(again) == {"nvidia.com/gpu": "2"}


def test_fractions_of_clearml_cannot_be_combined_with_memory():
    decided = decide(asking_memory("4Gi", containers=[container(limits={"clear.ml/fraction-1": "0.500"})]))
    assert decided.code == "gpu-amount"
    assert f'does not match {MEMORY} "4Gi": remove it' in decided.message


def test_one_gpu_in_addition_to_the_label_is_replaced():
    decided = decide(asking_memory("4Gi", containers=[container(limits={"nvidia.com/gpu": "1"})]))
    assert "nvidia.com/gpu" not in limits(decided)


def test_the_same_memory_of_each_of_two_gpus():
    decided = webhook_of(gpu_node("a", mib=40960)).decide(
        asking_memory(
            "6Gi", metadata={"labels": {MEMORY: "6Gi"}, "annotations": {"clearml-injector/gpus": "2"}}
        )
    )
    assert limits(decided) == {"nvidia.com/gpu-0": "2", "nvidia.com/gpu-1": "2"}
    assert ("CUDA_DEVICE_MEMORY_LIMIT_1", "6144m") in decided.env()


def test_what_is_assumed_of_nodes_to_come_decides_the_slices():
    webhook = webhook_of(policy_set=policies("assume: {gpusPerNode: 2, gpuMemoryMiB: 24576}"))
    decided = webhook.decide(asking_memory("4Gi"))
    assert (slices_of(decided), decided.outcome.injection.placement.degraded) == (2, True)
    assert webhook.decide(asking_memory("25Gi")).code == "no-matching-node"


ASSUMED = "assume: {gpusPerNode: 2, gpuMemoryMiB: 81920}"
AWAY_FROM_24 = {"key": "nvidia.com/gpu.memory", "operator": "NotIn", "values": ["24576"]}


def expressions(decided):
    required = decided.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [each for term in required["nodeSelectorTerms"] for each in term["matchExpressions"]]


def test_slices_of_assumed_cards_never_land_on_known_ones_on_which_they_hold_less():
    webhook = webhook_of(gpu_node("small", mib=24576), policy_set=policies(ASSUMED))
    first = webhook.decide(asking_memory("30Gi"))
    assert (slices_of(first), expressions(first)) == (3, [AWAY_FROM_24])
    again = webhook.decide(first.stored)
    assert (again.code, again.patch) == ("unchanged", [])


@pytest.mark.parametrize("dry_run", [True, False])
def test_who_writes_an_assumed_share_by_hand_is_kept_away_from_them_too(dry_run):
    written = webhook_of(policy_set=policies(ASSUMED)).decide(asking_memory("30Gi")).stored
    assert "affinity" not in written["spec"]
    webhook = webhook_of(gpu_node("small", mib=24576), policy_set=policies(ASSUMED))
    assert expressions(webhook.decide(written, dryRun=dry_run)) == [AWAY_FROM_24]


def test_a_job_keeps_the_label_on_its_template():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {MEMORY: "4G"}},
        "spec": {"template": {"metadata": {"labels": {MEMORY: "4G"}}, "spec": {"containers": [container()]}}},
    }
    assert Webhook().send(review_of(job, resource=JOBS)).code == "label-not-allowed"
    del job["spec"]["template"]["metadata"]
    decided = Webhook().send(review_of(job, resource=JOBS))
    assert decided.message.startswith(f"{MEMORY} is only on the Job")


@settings(max_examples=examples(300), deadline=None)
@given(
    st.integers(1, 150_000),
    st.lists(st.integers(1, 150_000), min_size=1, max_size=6, unique=True),
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from(["per-gpu", "pooled"]),
    st.integers(0, 500),
)
def test_enough_is_allocated_and_less_than_one_slice_more(mib, cards, per_gpu, mode, reserve):
    policy = f"slicesPerGpu: {per_gpu}\nresources: {{mode: {mode}}}\nmemory: {{reserveMiB: {reserve}}}"
    if mode == "per-gpu":
        gpus = {"gpus": ((0, per_gpu),), "slices_per_gpu": per_gpu}
        nodes = [gpu_node(f"n{card}", mib=card, **gpus) for card in cards]
    else:
        nodes = [pooled_node(f"n{card}", gpus=1, mib=card, pooled=per_gpu) for card in cards]
    decided = webhook_of(*nodes, policy_set=policies(policy)).decide(asking_memory(f"{mib}Mi"))
    needed = mib + reserve
    if needed > max(cards):
        assert decided.code == "no-matching-node"
        return
    slices, bound = slices_of(decided), bound_to(decided)
    assert bound == sorted(c for c in cards if slices * c >= needed * per_gpu > (slices - 1) * c)
    assert decided.annotations["clearml-injector/memory-mib"] == str(mib)
    [limit] = [value for name, value in decided.env() if name.startswith("CUDA_DEVICE_MEMORY_LIMIT")]
    assert limit == f"{mib}m"


@pytest.mark.parametrize(
    ("text", "mib"), [("4G", 3814), ("1G", 953), ("2M", 1), ("500M", 476), ("17G", 16212), ("4Gi", 4096)]
)
def test_decimal_amounts_are_what_they_say_rounded_down_where_the_policy_takes_them(text, mib):
    under = policies("memory: {decimal: true}")
    webhook = webhook_of(gpu_node("a", mib=24576), policy_set=under)
    decided = webhook.decide(asking_memory(text))
    assert slices_of(decided) == -(-mib * 8 // 24576)
    assert decided.annotations["clearml-injector/memory-mib"] == str(mib)


@pytest.mark.parametrize(("text", "instead"), [("4G", "3814Mi"), ("1024M", "976Mi"), ("1073741824M", None)])
def test_decimal_amounts_are_denied_elsewhere_with_as_much_in_mi(text, instead):
    decided = decide(asking_memory(text))
    examples = f'"{instead}"' if instead else '"512Mi" or "4Gi"'
    assert (
        decided.message
        == f'{MEMORY} "{text}" is not a whole number of Mi or Gi: use a value such as {examples}'
    )


@pytest.mark.parametrize("text", ["4g", "4.5G", "4GB", "04G", "0G", "1M", "4T", "4e9", "-4G", ""])
def test_other_texts_are_denied_under_such_a_policy_too(text):
    decided = decide(asking_memory(text), policies("memory: {decimal: true}"))
    assert decided.message == (
        f'{MEMORY} "{text}" is not a whole number of Mi, Gi, M or G: use a value such as "4Gi" or "4G"'
    )


def test_a_policy_that_takes_no_memory_cannot_say_how_it_is_written():
    with pytest.raises(PolicyError, match=r"memory\.decimal: is about memory that no pod may request"):
        policies('fractions: {"0.500": 4}\nmemory: {decimal: true}')


def test_with_the_drivers_limiter_the_driver_holds_a_decimal_amount_exactly():
    under = policies("limiter: nvidia-driver\nresources: {mode: pooled}\nmemory: {decimal: true}")
    decided = webhook_of(pooled_node("a", mib=24576), policy_set=under).decide(asking_memory("4G"))
    assert ("NVIDIA_GPU_MEMORY_LIMIT", "3814") in decided.env()
    assert slices_of(decided) == 2
