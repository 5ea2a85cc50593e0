"""fraction-injector explain for pods of mode dra: the cards that their claims may take, by the inventory."""

import json

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from testbed.gpu_nodes import GpuNode
from tests.cli.commands.test_why_claims import card
from tests.cli.running import as_yaml, error_line, run, write
from tests.controller.watch.test_card_claims import claim, result
from tests.controller.watch.test_claim_cards import resource_slice
from tests.webhook.support import pod

A40, A80 = (f"NVIDIA-A100-SXM4-{size}GB" for size in (40, 80))
ADD = "make it by kubectl get nodes,pods,resourceslices,resourceclaims -A -o yaml"


def model(size, device, **more):
    found = card(device, size * 1024, **more)
    found["attributes"]["productName"] = {"string": f"NVIDIA A100-SXM4-{size}GB"}
    return found


def offered(*devices, node="a", driver=DRIVER):
    return {"kind": "ResourceSlice", **resource_slice(f"of-{node}", *devices, node=node, driver=driver)}


def held(device, share, node="b"):
    consumed = {"share": share}
    found = claim(result(device, driver=DRIVER, pool=node, consumedCapacity=consumed), name=f"of-{device}")
    return {"kind": "ResourceClaim", **found}


NODES = [GpuNode(gpus=4, memory_mib=24564).manifest(name) for name in "ab"]
SLICES = [offered(model(40, "gpu-0")), offered(model(80, "gpu-0"), model(80, "gpu-1"), node="b")]


@pytest.fixture
def explain(tmp_path):
    (tmp_path / "policies").mkdir()

    def call(*objects, found=None, output="text", mode="dra"):
        text = f"kind: Policy\nname: default\nresources: {{mode: {mode}}}\nmemory: {{allowed: true}}\n"
        write(tmp_path / "policies", default=text)
        nodes = json.dumps({"kind": "List", "items": [*NODES, *objects]})
        write(tmp_path, pod=as_yaml(found or pod()), nodes=nodes)
        options = "--policies", tmp_path / "policies", "--inventory", tmp_path / "nodes.yaml"
        return run("explain", tmp_path / "pod.yaml", *options, "--output", output)

    return call


def facts_of(ended):
    [facts] = json.loads(ended.stdout)
    return facts


def lines_of(ended):
    return list(map(str.strip, ended.stdout.splitlines()))


def test_the_cards_that_a_claim_may_take_are_those_of_its_driver_and_never_those_of_slices(explain):
    facts = facts_of(explain(*SLICES, output="json"))
    assert facts["kinds"] == [
        {"model": A40, "memoryMiB": 40960, "cards": 1},
        {"model": A80, "memoryMiB": 81920, "cards": 2},
    ]
    assert facts["hasRoom"] is True
    lines = lines_of(explain(*SLICES))
    assert (
        f"cards that its claim may take: {A40} of 40960 MiB (1 card), {A80} of 81920 MiB (2 cards)" in lines
    )
    assert "a node has room for it now" in lines


def test_auto_means_claims_where_the_inventory_has_cards_of_the_agents(explain):
    others = offered(model(40, "gpu-0"), driver=NVIDIA_DRIVER)
    have_claims = ["resourceClaims" in explain(*given, mode="auto").stdout for given in (SLICES, [others])]
    assert have_claims == [True, False]


def test_half_of_each_of_two_cards_is_limited_though_it_sums_up_to_a_whole_one(explain):
    two = pod(metadata={"annotations": {"clearml-injector/gpus": "2"}})
    assert "policy default, limits from the agent of its node" in lines_of(explain(*SLICES, found=two))


def test_a_pod_waits_if_claims_hold_too_much_of_all_its_cards(explain):
    claims = [held("gpu-0", "600k"), held("gpu-1", "1M")]
    on_b = pod(nodeSelector={"kubernetes.io/hostname": "b"})
    assert "no node has room for it now: it would wait" in lines_of(explain(*SLICES, *claims, found=on_b))
    facts = facts_of(explain(*SLICES, claims[1], found=on_b, output="json"))
    assert facts["hasRoom"] is True


def test_without_cards_of_its_driver_it_says_what_the_inventory_lacks(explain):
    others = offered(model(40, "gpu-0", driver=NVIDIA_DRIVER), driver=NVIDIA_DRIVER)
    lines = lines_of(explain(others))
    assert f"the inventory has no cards of DRA driver {DRIVER}: {ADD}" in lines
    assert not [line for line in lines if line.startswith("cards that its claim may take")]
    facts = facts_of(explain(others, output="json"))
    assert (facts["allowed"], facts["kinds"], facts["hasRoom"]) == (True, [], None)
    of_memory = pod(fraction=None, labels={"clearml-injector/gpu-memory": "30Gi"})
    denied = explain(others, found=of_memory).stdout
    assert ": denied (no-matching-node)" in denied
    assert f"the inventory has no cards of DRA driver {DRIVER}: {ADD}" in denied


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (offered(model(80, "gpu-0") | {"attributes": {"memoryMiB": {"int": "x"}}}), "ResourceSlice of-a: "),
        (held("gpu-0", "much"), "ResourceClaim of-gpu-0: "),
    ],
)
def test_a_slice_or_claim_that_cannot_be_read_is_named(explain, tmp_path, wrong, named):
    assert error_line(explain(wrong)).startswith(f"{tmp_path / 'nodes.yaml'}: {named}")
