"""Several containers of one pod that share its GPU: each its own slices, its own limit, its own cache."""

import pytest

from ledger.from_kubernetes import pod_from_object
from modes.resource_names import ResourceNames
from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import CACHE, container, decide, named, policies
from tests.webhook.support.gpu_pods import (
    CONTAINERS,
    JOBS,
    job_of,
    limits,
    memory_limits,
    pooled_node,
    sharing,
    webhook_of,
)

SHARED = "train=0.500,eval=0.250"


def shared(text=SHARED, fraction="0.750", containers=None, annotations=None, **spec):
    return sharing(text, fraction, containers, annotations, **spec)


def two_gpus(policy_set=None, *, mib=81920, holders=()):
    return webhook_of(gpu_node("a", 2, mib), policy_set=policy_set, holders=holders)


def test_each_container_gets_its_slices_of_the_same_gpu_and_its_own_limit_and_cache():
    decided = two_gpus(holders=[holder("other", "a", (0, 3))]).decide(shared())
    assert limits(decided, "train") == {"nvidia.com/gpu-1": "4"}
    assert limits(decided, "eval") == {"nvidia.com/gpu-1": "2"}
    assert decided.container("train")["resources"]["requests"] == limits(decided, "train")
    assert memory_limits(decided, "train") == {"CUDA_DEVICE_MEMORY_LIMIT_0": "40960m"}
    assert dict(decided.env("eval"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20480m"
    caches = [
        mount["name"]
        for name in ("train", "eval")
        for mount in decided.container(name)["volumeMounts"]
        if mount["mountPath"] == CACHE
    ]
    assert caches == ["gpu-limiter-cache-train", "gpu-limiter-cache-eval"]
    assert limits(decided, "proxy") is None
    assert decided.env("proxy") == [("NVIDIA_VISIBLE_DEVICES", "void")]


def test_the_annotations_say_the_sum_and_each_part_in_the_order_of_the_user():
    decided = two_gpus().decide(shared("eval=0.250,train=0.500"))
    said = {name.removeprefix("clearml-injector/"): text for name, text in decided.annotations.items()}
    assert {key: said[key] for key in ("slices", "gpu-container", "gpu-index", "memory-mib")} == {
        "slices": "6",
        "gpu-container": "eval,train",
        "gpu-index": "0",
        "memory-mib": "20480,40960",
    }


def test_the_parts_of_the_memory_are_never_more_than_the_pods_share():
    decided = two_gpus(mib=23027).decide(shared("train=0.375,eval=0.250", "0.625"))
    found = [int(dict(decided.env(name))["CUDA_DEVICE_MEMORY_LIMIT_0"][:-1]) for name in ("train", "eval")]
    assert found == [8634, 5756]
    assert sum(found) <= 23027 * 5 // 8


def test_the_reserve_is_taken_off_each_part_and_something_must_be_left():
    decided = two_gpus(policies("memory: {reserveMiB: 480}")).decide(shared())
    assert decided.annotations["clearml-injector/memory-mib"] == "40480,20000"
    denied = two_gpus(policies("memory: {reserveMiB: 20480}")).decide(shared())
    assert denied.code == "memory-too-small"


def test_an_init_container_that_asks_for_a_gpu_runs_alone_and_gets_all_of_the_share():
    asks = container("warm", limits={"nvidia.com/gpu": "1"})
    decided = two_gpus().decide(shared(initContainers=[asks]))
    assert limits(decided, "warm") == {"nvidia.com/gpu-0": "6"}
    assert dict(decided.env("warm"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "61440m"


def test_the_pods_sum_is_reserved_once():
    webhook = two_gpus()
    webhook.decide(shared())
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [6, 0]


@pytest.mark.parametrize("text", ["train=0.250,eval=0.500", "eval=0.250,train=0.500", "train=0.750"])
def test_parts_that_were_changed_after_the_first_review_are_not_believed(text):
    webhook = two_gpus()
    injected = webhook.decide(shared()).stored
    injected["metadata"]["annotations"][CONTAINERS] = text
    assert webhook.decide(injected, uid="another").code in {"gpu-index-set", "several-gpu-containers"}


def test_limits_that_were_exchanged_after_the_first_review_are_put_back():
    webhook = two_gpus()
    injected = webhook.decide(shared()).stored
    train, evaluate = (named(injected["spec"]["containers"], name) for name in ("train", "eval"))
    train["env"], evaluate["env"] = evaluate["env"], train["env"]
    again = webhook.decide(injected, uid="another")
    assert dict(again.env("train"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "40960m"
    assert dict(again.env("eval"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20480m"


def test_in_a_pool_each_container_asks_for_its_slices():
    pooled = policies("resources: {mode: pooled}\nassume: {gpusPerNode: 4, gpuMemoryMiB: 81920}")
    decided = webhook_of(policy_set=pooled).decide(shared())
    assert limits(decided, "train") == {"nvidia.com/gpu": "4"}
    assert limits(decided, "eval") == {"nvidia.com/gpu": "2"}
    assert dict(decided.env("eval"))["CUDA_DEVICE_MEMORY_LIMIT"] == "20480m"


def test_the_users_amounts_must_be_those_of_the_part():
    asks = [
        container("train", limits={"nvidia.com/gpu": "4"}),
        container("eval", limits={"nvidia.com/gpu": "1"}),
    ]
    assert limits(two_gpus().decide(shared(containers=asks)), "eval") == {"nvidia.com/gpu-0": "2"}
    asks[1] = container("eval", limits={"nvidia.com/gpu": "4"})
    denied = two_gpus().decide(shared(containers=asks))
    assert (denied.code, denied.message) == (
        "gpu-amount",
        f'nvidia.com/gpu: 4 does not match {CONTAINERS} "eval=0.250": remove it or use 1 or 2',
    )


def test_a_container_that_asks_for_a_gpu_and_has_no_part_is_denied():
    asks = [container("train"), container("eval"), container("proxy", limits={"nvidia.com/gpu": "1"})]
    assert decide(shared(containers=asks)).code == "several-gpu-containers"


LONG = "a" * 63


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "containers-not-allowed", 'has no container with its fraction in ""'),
        ("train", "containers-not-allowed", 'has no container with its fraction in "train"'),
        ("train=0.500,", "containers-not-allowed", 'has no container with its fraction in ""'),
        (
            "train=0.500, eval=0.250",
            "containers-not-allowed",
            ('has no container with its fraction in " eval=0.250'),
        ),
        (
            "train=1e-1,eval=0.250",
            "containers-not-allowed",
            ('has no container with its fraction in "train=1e-1'),
        ),
        ("TRAIN=0.500", "containers-not-allowed", 'has no container with its fraction in "TRAIN=0.500'),
        ("train=0.5.0", "containers-not-allowed", "is not a whole number of slices of 8"),
        ("train=0.1", "containers-not-allowed", '"train=0.1", which is not a whole number of slices of 8'),
        (
            "train=0,eval=0.750",
            "containers-not-allowed",
            ('"train=0", which is not a whole number of slices'),
        ),
        ("train=0.500,train=0.250", "containers-not-allowed", 'lists "train" twice'),
        ("train=0.500,eval=0.500", "containers-not-allowed", "adds up to 8 of 8 slices, but"),
        ("train=0.500", "containers-not-allowed", "adds up to 4 of 8 slices, but"),
        ("train=2,eval=0.750", "containers-not-allowed", "adds up to 22 of 8 slices"),
        ("none-such=0.750", "container-unknown", 'has no container "none-such": use train, eval'),
        (f"{LONG}=0.750", "container-unknown", f'has no container "{LONG[:24]}..."'),
        (f"{LONG}{LONG}=0.750", "containers-not-allowed", f'in "{LONG[:24]}...": use a value'),
        ("train=0.125," * 16 + "eval=0.125", "containers-not-allowed", "can list up to 16 containers"),
        ("x" * 250_000, "containers-not-allowed", f'in "{"x" * 24}...": use a value'),
    ],
)
def test_what_is_no_agreement_is_denied_in_short_words(text, code, message):
    decided = decide(shared(text))
    assert decided.code == code
    assert message in decided.message
    assert len(decided.message) <= 200


@pytest.mark.parametrize("name", ["clearml-injector/container", "clearml-injector/gpus"])
def test_one_annotation_says_which_containers_get_the_gpu(name):
    decided = decide(shared(annotations={name: "train" if name.endswith("r") else "2"}))
    assert decided.code == "containers-not-allowed"
    assert decided.message == (
        f"annotation {CONTAINERS} cannot be combined with {name}: remove one of the two"
    )


def test_whole_gpus_are_not_shared_between_containers():
    whole = policies('fractions: {"1": 8}')
    decided = decide(shared("train=0.500,eval=0.500", "1"), whole)
    assert decided.code == "containers-not-allowed"
    assert "cannot divide whole GPUs" in decided.message


def shared_memory(text="train=4Gi,eval=2Gi", asked="6Gi", **fields):
    return sharing(text, asked, **fields)


def test_memory_is_shared_with_the_slices_and_the_very_limit_of_each():
    webhook = two_gpus(mib=24576)
    decided = webhook.decide(shared_memory())
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-0": "2"},
        {"nvidia.com/gpu-0": "1"},
    )
    assert memory_limits(decided, "train") == {"CUDA_DEVICE_MEMORY_LIMIT_0": "4096m"}
    assert memory_limits(decided, "eval") == {"CUDA_DEVICE_MEMORY_LIMIT_0": "2048m"}
    said = {name.removeprefix("clearml-injector/"): text for name, text in decided.annotations.items()}
    assert {key: said[key] for key in ("slices", "gpu-container", "gpu-index", "memory-mib")} == {
        "slices": "3",
        "gpu-container": "train,eval",
        "gpu-index": "0",
        "memory-mib": "4096,2048",
    }
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [3, 0]


def test_each_container_has_whole_slices_so_that_small_amounts_take_more_together_than_alone():
    made = [container(name) for name in ("a", "b", "c")]
    decided = two_gpus().decide(shared_memory("a=1Gi,b=1024Mi,c=1Gi", "3Gi", containers=made))
    assert decided.annotations["clearml-injector/slices"] == "3"
    affinity = decided.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["81920"]


def test_a_card_on_which_the_slices_of_all_are_more_than_it_has_takes_none():
    made = [container(f"c{number}") for number in range(9)]
    text = ",".join(f"c{number}=1Gi" for number in range(9))
    denied = two_gpus().decide(shared_memory(text, "9Gi", containers=made))
    assert (denied.code, denied.message.rpartition(": ")[2]) == ("no-matching-node", "request less")


@pytest.mark.parametrize("text", ["train=2Gi,eval=4Gi", "eval=2Gi,train=4Gi"])
def test_memory_that_was_changed_after_the_first_review_is_not_believed(text):
    webhook = two_gpus(mib=24576)
    injected = webhook.decide(shared_memory()).stored
    injected["metadata"]["annotations"][CONTAINERS] = text
    assert webhook.decide(injected, uid="another").code == "gpu-index-set"


def test_what_is_assumed_of_nodes_to_come_decides_the_slices_of_each():
    webhook = webhook_of(policy_set=policies("assume: {gpusPerNode: 2, gpuMemoryMiB: 24576}"))
    decided = webhook.decide(shared_memory())
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-0": "2"},
        {"nvidia.com/gpu-0": "1"},
    )


def test_the_reserve_is_held_in_addition_to_what_each_asks_for():
    decided = two_gpus(policies("memory: {reserveMiB: 1100}"), mib=24576).decide(shared_memory())
    assert decided.annotations["clearml-injector/memory-mib"] == "4096,2048"
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-0": "2"},
        {"nvidia.com/gpu-0": "2"},
    )


def test_an_init_container_gets_all_of_the_memory():
    asks = container("warm", limits={"nvidia.com/gpu": "1"})
    decided = two_gpus(mib=24576).decide(shared_memory(initContainers=[asks]))
    assert limits(decided, "warm") == {"nvidia.com/gpu-0": "3"}
    assert memory_limits(decided, "warm") == {"CUDA_DEVICE_MEMORY_LIMIT_0": "6144m"}


def test_memory_in_a_pool():
    pooled = policies("resources: {mode: pooled}")
    decided = webhook_of(pooled_node("a", mib=24576), policy_set=pooled).decide(shared_memory())
    assert limits(decided, "train") == {"nvidia.com/gpu": "2"}
    assert memory_limits(decided, "eval") == {"CUDA_DEVICE_MEMORY_LIMIT": "2048m"}


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        (SHARED, "6Gi", '"train=0.500", which is not a whole number of Mi or Gi'),
        (
            "train=4Gi,eval=2Gi",
            "0.750",
            ('has "train=4Gi", which is not a whole number of slices of 8: fix it'),
        ),
        (
            "train=4Gi",
            "6Gi",
            ("adds up to 4096Mi, but clearml-injector/gpu-memory is 6144Mi: make them equal"),
        ),
        ("train=4Gi,eval=4Gi", "6Gi", "adds up to 8192Mi, but"),
        ("train=4.5Gi,eval=1536Mi", "6Gi", '"train=4.5Gi", which is not a whole number of Mi or Gi'),
        ("train=0Gi,eval=6Gi", "6Gi", '"train=0Gi", which is not a whole number of Mi or Gi'),
        (
            "train=4GB,eval=2Gi",
            "6Gi",
            'has no container with its memory in "train=4GB": use a value such as "train=4Gi,',
        ),
        ("train=999999999Gi,eval=2Gi", "6Gi", "is not a whole number of Mi or Gi"),
        ("train=4Gi,train=2Gi", "6Gi", 'lists "train" twice: give it one memory'),
    ],
)
def test_amounts_that_are_not_the_labels_are_denied_in_short_words(text, asked, message):
    denied = decide(sharing(text, asked))
    assert denied.code == "containers-not-allowed"
    assert message in denied.message
    assert len(denied.message) <= 200


def test_the_users_fractions_of_clearml_cannot_be_combined_with_a_part_of_memory():
    made = [container("train", limits={"clear.ml/fraction-1": "0.500"}), container("eval")]
    denied = decide(shared_memory(containers=made))
    assert denied.code == "gpu-amount"
    assert f'{CONTAINERS} "train=4Gi"' in denied.message


def test_a_job_with_shared_memory_gets_the_denial_that_its_pods_would_get():
    assert decide(job_of(shared_memory()), resource=JOBS).allowed
    assert decide(job_of(shared_memory("train=4Gi")), resource=JOBS).code == "containers-not-allowed"


def test_a_quota_in_mib_counts_shared_memory_before_and_after_its_pod_is_there():
    quota = policies("quotas: {namespaces: {team: {memoryMiB: 6144}}}")
    webhook = two_gpus(quota, mib=24576)
    stored = webhook.decide(shared_memory()).stored
    assert webhook.decide(shared_memory("train=1Mi", "1Mi"), uid="more").code == "over-quota"
    stored["metadata"]["namespace"], stored["spec"]["nodeName"] = "team", "a"
    webhook.ledger.set_pod(pod_from_object(stored, ResourceNames()))
    [rule] = quota.resolve("team", None, None).quotas
    assert webhook.ledger.used_of(rule.quota).memory.mib == 6144
    assert webhook.decide(shared_memory("train=1Mi", "1Mi"), uid="more").code == "over-quota"


def test_an_init_container_that_ends_is_no_container_to_share_with():
    init = container("side")
    assert decide(shared("train=0.500,side=0.250", initContainers=[init])).code == "container-unknown"


def test_parts_may_be_written_as_the_user_likes_where_the_slices_are_the_same():
    decided = two_gpus().decide(shared("train=0.5,eval=0.25"))
    assert limits(decided, "train") == {"nvidia.com/gpu-0": "4"}


def test_images_that_limit_themselves_must_each_fit_their_part():
    small, large = (f"clearml/fractional-gpu:u22-cu12.3-{size}gb" for size in (16, 32))
    made = [{**container("train"), "image": large}, {**container("eval"), "image": small}]
    images = policies("limiter: clearml-image")
    assert two_gpus(images).decide(shared(containers=made)).allowed
    made[1]["image"] = large
    assert two_gpus(images).decide(shared(containers=made)).code == "image-does-not-fit"


def test_a_job_gets_the_denial_that_its_pods_would_get():
    assert decide(job_of(shared("train=0.500")), resource=JOBS).code == "containers-not-allowed"
