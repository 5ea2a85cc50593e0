"""Several containers of one pod that share its GPU: each its own slices, its own limit, its own cache."""

import pytest

from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import CACHE, container, decide
from tests.webhook.support.gpu_pods import CONTAINERS, limits, memory_limits, sharing, webhook_of

SHARED = "train=0.500,eval=0.250"


def shared(**fields):
    return sharing(SHARED, "0.750", **fields)


def two_gpus(holders=()):
    return webhook_of(gpu_node("a"), holders=holders)


def test_each_container_gets_its_slices_of_the_same_gpu_and_its_own_limit_and_cache():
    decided = two_gpus(holders=[holder("other", "a", (0, 3))]).decide(shared())
    for name, slices, mib in (("train", "4", 40960), ("eval", "2", 20480)):
        assert limits(decided, name) == {"nvidia.com/gpu-1": slices}
        assert decided.container(name)["resources"]["requests"] == limits(decided, name)
        assert memory_limits(decided, name) == {"CUDA_DEVICE_MEMORY_LIMIT_0": f"{mib}m"}
        mounts = decided.container(name)["volumeMounts"]
        caches = [mount["name"] for mount in mounts if mount["mountPath"] == CACHE]
        assert caches == [f"gpu-limiter-cache-{name}"]
    assert limits(decided, "proxy") is None
    assert decided.env("proxy") == [("NVIDIA_VISIBLE_DEVICES", "void")]


def test_an_init_container_that_asks_for_a_gpu_runs_alone_and_gets_all_of_the_share():
    asks = container("warm", limits={"nvidia.com/gpu": "1"})
    decided = two_gpus().decide(shared(initContainers=[asks]))
    assert limits(decided, "warm") == {"nvidia.com/gpu-0": "6"}
    assert dict(decided.env("warm"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "61440m"


@pytest.mark.parametrize("text", ["train=0.250,eval=0.500", "eval=0.250,train=0.500", "train=0.750"])
def test_parts_that_were_changed_after_the_first_review_are_not_believed(text):
    webhook = two_gpus()
    injected = webhook.decide(shared()).stored
    injected["metadata"]["annotations"][CONTAINERS] = text
    assert webhook.decide(injected, uid="another").code in {"gpu-index-set", "several-gpu-containers"}


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


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        ("", "0.750", 'has no container with its fraction in ""'),
        ("train=0.500, eval=0.250", "0.750", 'has no container with its fraction in " eval=0.250'),
        ("train=1e-1,eval=0.250", "0.750", 'has no container with its fraction in "train=1e-1'),
        ("train=0.5.0", "0.750", "is not a whole number of slices of 8"),
        ("train=0.1", "0.750", '"train=0.1", which is not a whole number of slices of 8'),
        ("train=0.500,train=0.250", "0.750", 'lists "train" twice'),
        ("train=0.500,eval=0.500", "0.750", "adds up to 8 of 8 slices, but"),
        ("train=2,eval=0.750", "0.750", "adds up to 22 of 8 slices"),
        ("none-such=0.750", "0.750", 'has no container "none-such": use train, eval'),
        ("train=0.125," * 16 + "eval=0.125", "0.750", "can list up to 16 containers"),
        (SHARED, "6Gi", '"train=0.500", which is not a whole number of Mi or Gi'),
        (
            "train=4Gi,eval=2Gi",
            "0.750",
            '"train=4Gi", which is not a whole number of slices of 8',
        ),
        ("train=4Gi", "6Gi", "adds up to 4096Mi, but clearml-injector/gpu-memory is 6144Mi: make them equal"),
        ("train=4.5Gi,eval=1536Mi", "6Gi", '"train=4.5Gi", which is not a whole number of Mi or Gi'),
        ("train=4GB,eval=2Gi", "6Gi", 'in "train=4GB": use a value such as "train=4Gi,'),
    ],
)
def test_what_is_no_agreement_is_denied_in_short_words(text, asked, message):
    denied = decide(sharing(text, asked))
    assert denied.code == ("container-unknown" if "none-such" in text else "containers-not-allowed")
    assert message in denied.message
    assert len(denied.message) <= 200


@pytest.mark.parametrize("name", ["clearml-injector/container", "clearml-injector/gpus"])
def test_one_annotation_says_which_containers_get_the_gpu(name):
    decided = decide(shared(annotations={name: "train" if name.endswith("r") else "2"}))
    assert decided.code == "containers-not-allowed"
    said = f"annotation {CONTAINERS} cannot be combined with {name}: remove one of the two"
    assert decided.message == said
