"""Several containers of one pod that share its GPU: each its own slices, its own limit, its own cache."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.ledger import Ledger
from tests.effort import examples
from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import CACHE, LABEL, Webhook, container, decide, named, pod, policies, review_of

CONTAINERS = "clearml-injector/containers"
SHARED = "train=0.500,eval=0.250"


def sharing(text=SHARED, fraction="0.750", containers=None, annotations=None, **spec):
    """A pod whose containers share its part of a GPU as the annotation says."""
    made = [container("train"), container("eval"), container("proxy")] if containers is None else containers
    said = {CONTAINERS: text, **(annotations or {})}
    return pod(fraction=fraction, containers=made, metadata={"annotations": said}, **spec)


def webhook_of(policy_set=None, *, mib=81920, holders=()):
    ledger = Ledger()
    ledger.replace([gpu_node("a", 2, mib)], holders)
    return Webhook(policy_set, ledger)


def limits(decided, name):
    return decided.container(name).get("resources", {}).get("limits")


def test_each_container_gets_its_slices_of_the_same_gpu_and_its_own_limit_and_cache():
    decided = webhook_of(holders=[holder("other", "a", (0, 3))]).decide(sharing())
    assert limits(decided, "train") == {"nvidia.com/gpu-1": "4"}
    assert limits(decided, "eval") == {"nvidia.com/gpu-1": "2"}
    assert decided.container("train")["resources"]["requests"] == limits(decided, "train")
    assert dict(decided.env("train"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "40960m"
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
    decided = webhook_of().decide(sharing("eval=0.250,train=0.500"))
    said = {name.removeprefix("clearml-injector/"): text for name, text in decided.annotations.items()}
    assert {key: said[key] for key in ("slices", "gpu-container", "gpu-index", "memory-mib")} == {
        "slices": "6",
        "gpu-container": "eval,train",
        "gpu-index": "0",
        "memory-mib": "20480,40960",
    }


def test_the_parts_of_the_memory_are_never_more_than_the_pods_share():
    decided = webhook_of(mib=23027).decide(sharing("train=0.375,eval=0.250", "0.625"))
    found = [int(dict(decided.env(name))["CUDA_DEVICE_MEMORY_LIMIT_0"][:-1]) for name in ("train", "eval")]
    assert found == [8634, 5756]
    assert sum(found) <= 23027 * 5 // 8


def test_the_reserve_is_taken_off_each_part_and_something_must_be_left():
    decided = webhook_of(policies("memory: {reserveMiB: 480}")).decide(sharing())
    assert decided.annotations["clearml-injector/memory-mib"] == "40480,20000"
    denied = webhook_of(policies("memory: {reserveMiB: 20480}")).decide(sharing())
    assert denied.code == "memory-too-small"


def test_an_init_container_that_asks_for_a_gpu_runs_alone_and_gets_all_of_the_share():
    asks = container("warm", limits={"nvidia.com/gpu": "1"})
    decided = webhook_of().decide(sharing(initContainers=[asks]))
    assert limits(decided, "warm") == {"nvidia.com/gpu-0": "6"}
    assert dict(decided.env("warm"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "61440m"


def test_the_pods_sum_is_reserved_once():
    webhook = webhook_of()
    webhook.decide(sharing())
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [6, 0]


def test_a_second_review_leaves_the_pod_alone():
    webhook = webhook_of()
    injected = webhook.decide(sharing()).stored
    again = webhook.decide(injected, uid="another")
    assert (again.code, again.patch) == ("unchanged", [])
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [6, 0]


@pytest.mark.parametrize("text", ["train=0.250,eval=0.500", "eval=0.250,train=0.500", "train=0.750"])
def test_parts_that_were_changed_after_the_first_review_are_not_believed(text):
    webhook = webhook_of()
    injected = webhook.decide(sharing()).stored
    injected["metadata"]["annotations"][CONTAINERS] = text
    assert webhook.decide(injected, uid="another").code in {"gpu-index-set", "several-gpu-containers"}


def test_limits_that_were_exchanged_after_the_first_review_are_put_back():
    webhook = webhook_of()
    injected = webhook.decide(sharing()).stored
    train, evaluate = (named(injected["spec"]["containers"], name) for name in ("train", "eval"))
    train["env"], evaluate["env"] = evaluate["env"], train["env"]
    again = webhook.decide(injected, uid="another")
    assert dict(again.env("train"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "40960m"
    assert dict(again.env("eval"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20480m"


def test_in_a_pool_each_container_asks_for_its_slices():
    pooled = policies("resources: {mode: pooled}\nassume: {gpusPerNode: 4, gpuMemoryMiB: 81920}")
    decided = Webhook(pooled, Ledger()).decide(sharing())
    assert limits(decided, "train") == {"nvidia.com/gpu": "4"}
    assert limits(decided, "eval") == {"nvidia.com/gpu": "2"}
    assert dict(decided.env("eval"))["CUDA_DEVICE_MEMORY_LIMIT"] == "20480m"


def test_the_users_amounts_must_be_those_of_the_part():
    asks = [
        container("train", limits={"nvidia.com/gpu": "4"}),
        container("eval", limits={"nvidia.com/gpu": "1"}),
    ]
    assert limits(webhook_of().decide(sharing(containers=asks)), "eval") == {"nvidia.com/gpu-0": "2"}
    asks[1] = container("eval", limits={"nvidia.com/gpu": "4"})
    denied = webhook_of().decide(sharing(containers=asks))
    assert (denied.code, denied.message) == (
        "gpu-amount",
        f'nvidia.com/gpu: 4 does not fit {CONTAINERS} "eval=0.250": leave it out or use 1 or 2',
    )


def test_a_container_that_asks_for_a_gpu_and_has_no_part_is_denied():
    asks = [container("train"), container("eval"), container("proxy", limits={"nvidia.com/gpu": "1"})]
    assert decide(sharing(containers=asks)).code == "several-gpu-containers"


LONG = "a" * 63
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=7).filter(lambda sizes: sum(sizes) <= 7)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "containers-not-allowed", '"" is no container with its fraction'),
        ("train", "containers-not-allowed", '"train" is no container with its fraction'),
        ("train=0.500,", "containers-not-allowed", '"" is no container with its fraction'),
        ("train=0.500, eval=0.250", "containers-not-allowed", '" eval=0.250" is no container'),
        ("train=1e-1,eval=0.250", "containers-not-allowed", '"train=1e-1" is no container'),
        ("TRAIN=0.500", "containers-not-allowed", '"TRAIN=0.500" is no container'),
        ("train=0.5.0", "containers-not-allowed", "is no whole number of slices of 8"),
        ("train=0.1", "containers-not-allowed", '"train=0.1" is no whole number of slices of 8'),
        ("train=0,eval=0.750", "containers-not-allowed", '"train=0" is no whole number of slices'),
        ("train=0.500,train=0.250", "containers-not-allowed", 'names "train" twice'),
        ("train=0.500,eval=0.500", "containers-not-allowed", "comes to 8 of 8 slices, and"),
        ("train=0.500", "containers-not-allowed", "comes to 4 of 8 slices, and"),
        ("train=2,eval=0.750", "containers-not-allowed", "comes to 22 of 8 slices"),
        ("none-such=0.750", "container-unknown", '"none-such" is no container of this pod: use train, eval'),
        (f"{LONG}=0.750", "container-unknown", f'"{LONG[:24]}..." is no container of this pod'),
        (f"{LONG}{LONG}=0.750", "containers-not-allowed", f'"{LONG[:24]}..." is no container with'),
        ("train=0.125," * 16 + "eval=0.125", "containers-not-allowed", "is for up to 16 containers"),
        ("x" * 250_000, "containers-not-allowed", "is for up to 16 containers"),
    ],
)
def test_what_is_no_agreement_is_denied_in_short_words(text, code, message):
    decided = decide(sharing(text))
    assert decided.code == code
    assert message in decided.message
    assert len(decided.message) <= 200


@pytest.mark.parametrize("name", ["clearml-injector/container", "clearml-injector/gpus"])
def test_one_annotation_says_which_containers_get_the_gpu(name):
    decided = decide(sharing(annotations={name: "train" if name.endswith("r") else "2"}))
    assert decided.code == "containers-not-allowed"
    assert decided.message == f"annotation {CONTAINERS} stands beside {name}: leave one of the two out"


def test_whole_gpus_are_not_shared_between_containers():
    whole = policies('fractions: {"1": 8}')
    decided = decide(sharing("train=0.500,eval=0.500", "1"), whole)
    assert decided.code == "containers-not-allowed"
    assert "for a part of one GPU" in decided.message


def test_mib_of_memory_are_not_shared_between_containers():
    found = sharing()
    found["metadata"]["labels"] = {"clearml-injector/gpu-memory": "4Gi"}
    assert decide(found).code == "containers-not-allowed"


def test_a_native_sidecar_is_no_container_to_share_with():
    side = container("side", restartPolicy="Always")
    assert decide(sharing("train=0.500,side=0.250", initContainers=[side])).code == "container-unknown"


def test_parts_may_be_written_as_the_user_likes_where_the_slices_are_the_same():
    decided = webhook_of().decide(sharing("train=0.5,eval=0.25"))
    assert limits(decided, "train") == {"nvidia.com/gpu-0": "4"}


def test_images_that_limit_themselves_must_each_fit_their_part():
    small, large = (f"clearml/fractional-gpu:u22-cu12.3-{size}gb" for size in (16, 32))
    made = [{**container("train"), "image": large}, {**container("eval"), "image": small}]
    images = policies("limiter: clearml-image")
    assert webhook_of(images).decide(sharing(containers=made)).allowed
    made[1]["image"] = large
    assert webhook_of(images).decide(sharing(containers=made)).code == "image-does-not-fit"


def test_a_job_is_told_what_its_pods_would_be_told():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": {LABEL: "0.750"}}}
    review = review_of({**job, "spec": {"template": sharing("train=0.500")}})
    review["request"]["resource"] = {"group": "batch", "version": "v1", "resource": "jobs"}
    assert Webhook().send(review).code == "containers-not-allowed"


@given(SIZES, st.integers(1000, 200_000))
@settings(max_examples=examples(200), deadline=None)
def test_slices_and_memory_of_the_parts_come_to_the_pods_share(sizes, mib):
    names = [f"c{number}" for number in range(len(sizes))]
    text = ",".join(f"{name}={size * 0.125}" for name, size in zip(names, sizes, strict=True))
    made = [container(name) for name in names]
    decided = webhook_of(mib=mib).decide(sharing(text, f"{sum(sizes) * 0.125:.3f}", made))
    assert [limits(decided, name)["nvidia.com/gpu-0"] for name in names] == [str(size) for size in sizes]
    share = mib * sum(sizes) // 8
    granted = [int(dict(decided.env(name))["CUDA_DEVICE_MEMORY_LIMIT_0"][:-1]) for name in names]
    assert all(0 <= mib * size / 8 - part < 2 for size, part in zip(sizes, granted, strict=True))
    assert share - len(sizes) < sum(granted) <= share
