"""Every request in every mode on every kind of card, as `explain` decides it: slices, MiB, index."""

from functools import cache

import pytest

from cli.explainer import Explainer, review_of
from ledger.from_kubernetes import node_from_object
from ledger.ledger import Ledger
from policies.loading.loader import parse_policies
from testbed.gpu_nodes import GpuNode
from tests.webhook.support import LABEL, container, pod
from tests.webhook.support.gpu_pods import CONTAINERS, GPUS, MEMORY
from tests.webhook.support.reviewed_again import check_again

CARDS = {"T4": 16384, "A10": 23028, "A100-40": 40960, "A100-80": 81920}
FRACTIONS = '"0.125": 1, "0.2": 2, "0.500": 4, "0.750": 6, "0.875": 7, "1.000": 8'
DENIED = None

# By kind of card, in the order of CARDS: slices in all, and MiB of each GPU or of each container; None where
# nothing is limited. MiB are rounded down: an eighth of the A10 is 2878.5.
ONE_GPU = {
    (LABEL, "0.125"): [(1, 2048), (1, 2878), (1, 5120), (1, 10240)],
    (LABEL, "0.2"): [(2, 3276), (2, 4605), (2, 8192), (2, 16384)],
    (LABEL, "0.500"): [(4, 8192), (4, 11514), (4, 20480), (4, 40960)],
    (LABEL, "0.875"): [(7, 14336), (7, 20149), (7, 35840), (7, 71680)],
    (MEMORY, "4Gi"): [(2, 4096), (2, 4096), (1, 4096), (1, 4096)],
    (MEMORY, "15000Mi"): [(8, 15000), (6, 15000), (3, 15000), (2, 15000)],
    (MEMORY, "20Gi"): [DENIED, (8, 20480), (4, 20480), (2, 20480)],
    (MEMORY, "80Gi"): [DENIED, DENIED, DENIED, (8, 81920)],
    (LABEL, "0.250"): [DENIED] * 4,
    (MEMORY, "4G"): [DENIED] * 4,
    (LABEL, "1.000"): [(8, None)] * 4,
}
WHOLE_GPUS = {(LABEL, "2.000"): [(16, None)] * 4}
TWO_GPUS = {
    (LABEL, "0.125"): [(2, 2048), (2, 2878), (2, 5120), (2, 10240)],
    (LABEL, "0.500"): [(8, 8192), (8, 11514), (8, 20480), (8, 40960)],
    (MEMORY, "4Gi"): [(4, 4096), (4, 4096), (2, 4096), (2, 4096)],
    (MEMORY, "20Gi"): [DENIED, (16, 20480), (8, 20480), (4, 20480)],
    (LABEL, "1.000"): [DENIED] * 4,
}
# The kubelet might put all slices on one.
TWO_GPUS_OF_A_POOL = {label: [DENIED] * 4 for label in TWO_GPUS}
PARTS = {LABEL: "train=0.500,eval=0.250", MEMORY: "train=4Gi,eval=2Gi"}
TWO_CONTAINERS = {
    (LABEL, "0.750"): [(6, "8192,4096"), (6, "11514,5757"), (6, "20480,10240"), (6, "40960,20480")],
    (LABEL, "0.500"): [DENIED] * 4,
    (MEMORY, "6Gi"): [(3, "4096,2048"), (3, "4096,2048"), (2, "4096,2048"), (2, "4096,2048")],
    (MEMORY, "4Gi"): [DENIED] * 4,
}

# Mode mig: the eighths that a profile is worth, by card.
PROFILES = {
    "NVIDIA-A30": {"1g.6gb": 2, "2g.12gb": 4, "4g.24gb": 8},
    "NVIDIA-A100-SXM4-40GB": {"1g.5gb": 1, "1g.10gb": 2, "2g.10gb": 2, "3g.20gb": 4, "7g.40gb": 8},
    "NVIDIA-A100-SXM4-80GB": {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "7g.80gb": 8},
    "NVIDIA-H200": {"1g.18gb": 1, "1g.35gb": 2, "2g.35gb": 2, "3g.71gb": 4, "7g.141gb": 8},
}
# In the order of PROFILES. Of an instance the driver keeps a little: 80Gi are more than a whole 7g.80gb.
INSTANCES = {
    (LABEL, "0.125"): ["1g.6gb", "1g.5gb", "1g.10gb", "1g.18gb"],
    (LABEL, "0.2"): ["1g.6gb", "1g.10gb", "1g.20gb", "1g.35gb"],
    (LABEL, "0.500"): ["2g.12gb", "3g.20gb", "3g.40gb", "3g.71gb"],
    (LABEL, "0.875"): ["4g.24gb", "7g.40gb", "7g.80gb", "7g.141gb"],
    (LABEL, "1.000"): ["4g.24gb", "7g.40gb", "7g.80gb", "7g.141gb"],
    (MEMORY, "4Gi"): ["1g.6gb", "1g.5gb", "1g.10gb", "1g.18gb"],
    (MEMORY, "15000Mi"): ["4g.24gb", "3g.20gb", "1g.20gb", "1g.18gb"],
    (MEMORY, "20Gi"): ["4g.24gb", "7g.40gb", "3g.40gb", "1g.35gb"],
    (MEMORY, "80Gi"): [DENIED, DENIED, DENIED, "7g.141gb"],
    (LABEL, "0.250"): [DENIED] * 4,
    (LABEL, "2.000"): [DENIED] * 4,
    (MEMORY, "4G"): [DENIED] * 4,
}
NO_INSTANCES = {(LABEL, "0.500"): [DENIED] * 4}


def cells(mode, table, cards=CARDS, annotations=lambda _: {}):
    """Mode, card, label, annotations, and what the pod gets: of each cell of a table."""
    for (name, text), row in table.items():
        more = annotations(name)
        for card, cell in zip(cards, row, strict=True):
            words = ", ".join(f"{key}={value}" for key, value in {name: text, **more}.items())
            yield pytest.param(mode, card, {name: text}, more, cell, id=f"{words} in {mode} on {card}")


def two_gpus(_):
    return {GPUS: "2"}


def two_containers(name):
    return {CONTAINERS: PARTS[name]}


@cache
def installed(mode, card):
    """The policy of a mode, and the ledger of one idle node with a kind of card."""
    fractions = FRACTIONS if mode == "mig" else f'{FRACTIONS}, "2.000": 16'
    keys = f"resources: {{mode: {mode}}}\nmemory: {{allowed: true}}\nfractions: {{{fractions}}}\n"
    policies, ledger = parse_policies({"all.yaml": f"kind: Policy\nname: default\n{keys}".encode()}), Ledger()
    if mode == "mig":
        instances = {f"nvidia.com/mig-{profile}": 2 for profile in PROFILES[card]}
        node = GpuNode(gpus=0, product=card, instances=instances)
    else:
        node = GpuNode(gpus=2, memory_mib=CARDS[card], product=card, pooled=mode == "pooled")
    ledger.replace([node_from_object(node.manifest("node"), policies.resource_names)], [])
    return policies, ledger


def decided(mode, card, label, annotations):
    """The facts of a pod with that request, which a second review leaves unchanged."""
    policies, ledger = installed(mode, card)
    made = [container("train"), container("eval")] if CONTAINERS in annotations else None
    found = pod(fraction=None, labels=label, containers=made, metadata={"annotations": annotations})
    [explained] = Explainer(policies, ledger).explain(found)
    if explained.allowed:
        check_again(policies, ledger, review_of(explained.before), explained.pod)
    return explained.as_json()


def assert_denied(facts):
    assert not facts["allowed"]
    assert 0 < len(facts["message"]) <= 200
    assert "\n" not in facts["message"]


@pytest.mark.parametrize(
    ("mode", "card", "label", "annotations", "cell"),
    [
        *(each for mode in ("per-gpu", "pooled") for each in cells(mode, ONE_GPU | WHOLE_GPUS)),
        *(
            each
            for mode in ("per-gpu", "pooled")
            for each in cells(mode, TWO_CONTAINERS, annotations=two_containers)
        ),
        *cells("per-gpu", TWO_GPUS, annotations=two_gpus),
        *cells("pooled", TWO_GPUS_OF_A_POOL, annotations=two_gpus),
    ],
)
def test_every_request(mode, card, label, annotations, cell):
    facts = decided(mode, card, label, annotations)
    if cell is DENIED:
        assert_denied(facts)
        if mode == "pooled" and GPUS in annotations:
            assert facts["code"] == "gpus-not-allowed"
        return
    slices, mib = cell
    assert facts["slices"] == slices
    notes = facts["pod"]["metadata"]["annotations"]
    assert notes.get("clearml-injector/memory-mib") == (None if mib is None else str(mib))
    assert facts["memoryMiB"] == (mib if mib is None else sum(map(int, str(mib).split(","))))
    gpus = 2 if GPUS in annotations or slices > 8 else 1
    indices = list(range(gpus)) if mode == "per-gpu" else []
    is_list = mib is None or gpus > 1
    assert facts["index"] == (indices if is_list else next(iter(indices), None))


@pytest.mark.parametrize(
    ("mode", "card", "label", "annotations", "profile"),
    [
        *cells("mig", INSTANCES, PROFILES),
        *cells("mig", NO_INSTANCES, PROFILES, two_gpus),
        *cells("mig", NO_INSTANCES, PROFILES, two_containers),
    ],
)
def test_every_request_in_mode_mig(mode, card, label, annotations, profile):
    facts = decided(mode, card, label, annotations)
    assert facts["profile"] == profile
    if profile is DENIED:
        assert_denied(facts)
        return
    assert facts["slices"] == PROFILES[card][profile]
    (task,) = facts["pod"]["spec"]["containers"]
    assert task["resources"]["limits"] == {f"nvidia.com/mig-{profile}": "1"}
    assert facts["index"] is None
    assert "clearml-injector/memory-mib" not in facts["pod"]["metadata"]["annotations"]
