"""Of several containers none of which asks for a GPU: the author's default, and known sidecars."""

import pytest

from policies.model.sidecars import KNOWN_SIDECARS
from tests.webhook.support import POLICIES, as_body, container, decide, pod, policies, review_of
from tests.webhook.support.bounded_work import check

DEFAULT = "kubectl.kubernetes.io/default-container"
GPU = {"nvidia.com/gpu": "1"}
DOCUMENT = (POLICIES.parent / "docs" / "reference" / "sidecars.md").read_text()


def chosen(decided):
    return decided.annotations["clearml-injector/gpu-container"]


def two(first, second, **annotations):
    return pod(containers=[first, second], metadata={"annotations": annotations})


def test_the_default_container_of_kubectl_gets_the_share():
    decided = decide(two(container("a"), container("b"), **{DEFAULT: "b"}))
    assert chosen(decided) == "b"
    assert decided.env("a") == [("NVIDIA_VISIBLE_DEVICES", "void")]


def test_our_own_annotation_goes_before_the_default_container():
    said = {DEFAULT: "b", "clearml-injector/container": "a"}
    assert chosen(decide(two(container("a"), container("b"), **said))) == "a"


def test_a_container_that_asks_for_a_gpu_goes_before_the_default_container():
    found = two(container("a", limits=GPU), container("b"), **{DEFAULT: "b"})
    assert chosen(decide(found)) == "a"


def test_of_several_that_the_policy_names_the_default_container_is_taken():
    found = two(container("clearml-id-1"), container("clearml-id-2"), **{DEFAULT: "clearml-id-2"})
    assert chosen(decide(found)) == "clearml-id-2"


@pytest.mark.parametrize("said", ["", "none-such", "setup", "side"])
def test_a_default_container_that_is_no_regular_one_says_nothing(said):
    found = two(container("a"), container("b"), **{DEFAULT: said})
    found["spec"]["initContainers"] = [container("setup"), container("side", restartPolicy="Always")]
    assert decide(found).code == "container-ambiguous"
    found["spec"]["containers"][1]["name"] = "daprd"
    assert chosen(decide(found)) == "a"


OF_MESHES_AND_OPERATORS = [
    ("istio-proxy", "docker.io/istio/proxyv2:1.24.0"),
    ("wait", "quay.io/argoproj/argoexec:v3.6.2"),
    ("any-name", "mirror.example.com:5000/istio/proxyv2:1.24.0-distroless"),
]


@pytest.mark.parametrize(("name", "image"), OF_MESHES_AND_OPERATORS)
@pytest.mark.parametrize("is_first", [True, False])
def test_with_a_known_sidecar_the_other_container_is_meant(name, image, is_first):
    both = [container(name, image=image), container("main")]
    decided = decide(pod(containers=both if is_first else both[::-1]))
    assert chosen(decided) == "main"
    assert decided.env(name) == [("NVIDIA_VISIBLE_DEVICES", "void")]


@pytest.mark.parametrize(
    ("name", "image"), [("wait", "example.com/train:1"), ("helper", None), ("agent", "x")]
)
def test_a_common_name_alone_makes_no_sidecar(name, image):
    assert (
        decide(pod(containers=[container(name, image=image), container("main")])).code
        == "container-ambiguous"
    )


def test_two_containers_and_a_sidecar_stay_ambiguous_and_the_denial_leaves_the_sidecar_out():
    decided = decide(pod(containers=list(map(container, ["a", "istio-proxy", "b"]))))
    assert decided.code == "container-ambiguous"
    assert decided.message.endswith("clearml-injector/container (a, b)")


SHIPPER = "container: {sidecars: [{name: ship-*}]}"
BOTH = 'container: {sidecars: [{name: logs, image: "*/shipper:*"}]}'


@pytest.mark.parametrize(
    ("text", "name", "image", "is_sidecar"),
    [
        (SHIPPER, "ship-logs", "x", True),
        (SHIPPER, "logs", "x", False),
        (SHIPPER, "istio-proxy", "x", True),
        (BOTH, "logs", "example.com/shipper:1", True),
        (BOTH, "logs", "example.com/other:1", False),
        (BOTH, "else", "example.com/shipper:1", False),
    ],
)
def test_the_admin_names_further_sidecars_in_addition_to_the_known_ones(text, name, image, is_sidecar):
    decided = decide(pod(containers=[container(name, image=image), container("main")]), policies(text))
    assert decided.code == ("injected" if is_sidecar else "container-ambiguous")


def test_a_second_review_keeps_the_container_whatever_a_mesh_names_since():
    """Istio's webhook names the first container as the default one where nobody did."""
    found = pod(containers=[container("daprd"), container("main")])
    stored = decide(found).stored
    stored["metadata"]["annotations"][DEFAULT] = "daprd"
    assert decide(stored).code == "unchanged"


def test_each_known_sidecar_stands_in_the_document():
    rows = [line.split("|")[1:3] for line in DOCUMENT.splitlines() if "`" in line and line.startswith("|")]
    written = {tuple(cell.strip().strip("`") for cell in row) for row in rows}
    assert written == {(each.name or "", each.image or "") for each in KNOWN_SIDECARS}


@pytest.mark.parametrize("text", ["a", "*/a" * 700, "x" * 2_000, "1/" * 128])
@pytest.mark.parametrize("count", [32, 200])
def test_many_containers_with_long_images_and_many_patterns_take_bounded_work(text, count):
    own = ", ".join(f'{{name: "*1-*-{number}*-", image: "*1/*/*{number}"}}' for number in range(50))
    names = [f"{number}-{'1-' * 28}c" for number in range(count)]
    found = pod(containers=[container(name, image=text) for name in names])
    outcome = check(as_body(review_of(found)), policies(f"container: {{sidecars: [{own}]}}"))
    assert outcome.reason == "container-ambiguous"
