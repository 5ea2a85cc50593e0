"""Which container gets the share, if no annotation divides it: the first of six rules, and known sidecars."""

import pytest

from policies.model.sidecars import KNOWN_SIDECARS
from tests.webhook.support import POLICIES, as_body, container, decide, pod, policies, review_of
from tests.webhook.support.bounded_work import check

DEFAULT, OURS = "kubectl.kubernetes.io/default-container", "clearml-injector/container"
GPU = {"nvidia.com/gpu": "1"}
SIDECAR = container("side", restartPolicy="Always")
DOCUMENT = (POLICIES.parent / "docs" / "reference" / "sidecars.md").read_text()


def of(*containers, annotations=None, **spec):
    """A pod named "task"; a text is a container of that name, and one that ends with "+" requests a GPU."""
    made = [
        container(each.rstrip("+"), limits=GPU if each.endswith("+") else None)
        if isinstance(each, str)
        else each
        for each in containers
    ]
    return pod(containers=made, metadata={"annotations": annotations or {}}, **spec)


def chosen(decided):
    return decided.annotations["clearml-injector/gpu-container"]


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (of("task", "main", annotations={OURS: "main"}), "main"),
        (of("a", "b", annotations={DEFAULT: "b", OURS: "a"}), "a"),
        (of("task", "b+"), "b"),
        (of("task", container("b", limits={"nvidia.com/gpu.shared": "1"})), "b"),
        (of("task", container("b", limits={"clear.ml/fraction-1": "500m"})), "b"),
        (of(container("a", limits={"nvidia.com/gpu": "0"}), "b+"), "b"),
        (of("a+", "b", annotations={DEFAULT: "b"}), "a"),
        (of("istio-proxy", "task"), "task"),
        (of("istio-proxy", "clearml-id-7"), "clearml-id-7"),
        (of("clearml-id-1", "log", annotations={DEFAULT: "log"}), "clearml-id-1"),
        (of("clearml-id-1", "clearml-id-2", annotations={DEFAULT: "clearml-id-2"}), "clearml-id-2"),
        (of("a", "b", annotations={DEFAULT: "b"}), "b"),
        (of("train", "istio-proxy", annotations={DEFAULT: "istio-proxy"}), "istio-proxy"),
        (of("a", "daprd", annotations={DEFAULT: "side"}, initContainers=[SIDECAR]), "a"),
        (of("istio-proxy", "main", "vault-agent"), "main"),
        (of("istio-proxy"), "istio-proxy"),
    ],
)
def test_the_first_rule_that_names_one_container_decides(found, name):
    decided = decide(found)
    assert chosen(decided) == name
    for other in found["spec"]["containers"]:
        assert other["name"] == name or decided.env(other["name"]) == [("NVIDIA_VISIBLE_DEVICES", "void")]


DIVIDE = "or divide the share in clearml-injector/containers"
AMBIGUOUS = "several containers could get the GPU: name one in the annotation clearml-injector/container"


@pytest.mark.parametrize(
    ("found", "code", "message"),
    [
        (of("a", "b", annotations={OURS: "mian"}), "container-unknown", 'has no container "mian": use a, b'),
        (of("a", "b", annotations={OURS: ""}), "container-unknown", 'has no container "": use a, b'),
        (
            of("a", annotations={OURS: "init"}, initContainers=[container("init")]),
            "container-unknown",
            'has no container "init": use a',
        ),
        (
            of("a+", "main", annotations={OURS: "main"}),
            "several-gpu-containers",
            f"from the container, {DIVIDE}",
        ),
        (
            of("train+", initContainers=[{**SIDECAR, "resources": {"limits": GPU}}]),
            "several-gpu-containers",
            f'containers "train" and "side" both request a GPU: remove one of the requests, {DIVIDE}',
        ),
        (of("a", "b"), "container-ambiguous", f"{AMBIGUOUS} (a, b)"),
        (of("task", "clearml-id-2"), "container-ambiguous", f"{AMBIGUOUS} (task, clearml-id-2)"),
        (of("a", "istio-proxy", "b"), "container-ambiguous", f"{AMBIGUOUS} (a, b)"),
        (of("a", "b", annotations={DEFAULT: "none-such"}), "container-ambiguous", f"{AMBIGUOUS} (a, b)"),
    ],
)
def test_where_none_or_several_could_be_meant_the_denial_says_what_to_write(found, code, message):
    denied = decide(found)
    assert denied.code == code
    assert denied.message.endswith(message)


def test_the_policy_names_what_to_look_for():
    assert chosen(decide(of("proxy", "notebook"), policies("container: {names: [note*]}"))) == "notebook"


SHIPPER = "container: {sidecars: [{name: ship-*}]}"
BOTH = 'container: {sidecars: [{name: logs, image: "*/shipper:*"}]}'


@pytest.mark.parametrize(
    ("text", "name", "image", "is_sidecar"),
    [
        ("", "wait", "quay.io/argoproj/argoexec:v3.6.2", True),
        ("", "any-name", "mirror.example.com:5000/istio/proxyv2:1.24.0-distroless", True),
        ("", "wait", "example.com/train:1", False),
        ("", "helper", None, False),
        (SHIPPER, "ship-logs", "x", True),
        (SHIPPER, "logs", "x", False),
        (SHIPPER, "istio-proxy", "x", True),
        (BOTH, "logs", "example.com/shipper:1", True),
        (BOTH, "logs", "example.com/other:1", False),
        (BOTH, "else", "example.com/shipper:1", False),
    ],
)
def test_a_known_sidecar_or_one_of_the_admins_is_not_meant(text, name, image, is_sidecar):
    decided = decide(of(container(name, image=image), "main"), policies(text))
    assert decided.code == ("injected" if is_sidecar else "container-ambiguous")


def test_a_second_review_keeps_the_container_whatever_a_mesh_names_since():
    """Istio's webhook names the first container as the default one where nobody did."""
    stored = decide(of("daprd", "main")).stored
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
