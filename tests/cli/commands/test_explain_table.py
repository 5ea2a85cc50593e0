"""Every request in every mode on every kind of card, as `explain` decides it: slices, MiB, index."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from cli.explainer import Explainer, review_of
from ledger.from_kubernetes import node_from_object
from ledger.ledger import Ledger
from policies.loading.loader import parse_policies
from policies.loading.policy_set import PolicySet
from testbed.gpu_nodes import GpuNode
from tests.request_table import (
    CARDS,
    MIG_POLICY,
    POLICY,
    InstanceRequest,
    Request,
    every_instance_request,
    every_request,
    instance_nodes,
)
from tests.webhook.support import container, pod
from tests.webhook.support.gpu_pods import CONTAINERS, GPUS
from tests.webhook.support.reviewed_again import check_again

INSTANCES = dict(instance_nodes())


@cache
def installed(mode: str, *products: str) -> tuple[PolicySet, Ledger]:
    """The policy of a mode, and the ledger of one idle node with each kind of card."""
    text = MIG_POLICY if mode == "mig" else POLICY.replace("MODE", mode)
    policies, ledger = parse_policies({"all.yaml": text.replace("NAME", "default").encode()}), Ledger()
    nodes = [
        GpuNode(gpus=0, product=each, instances=INSTANCES[each])
        if mode == "mig"
        else GpuNode(gpus=2, memory_mib=CARDS[each], product=each, pooled=mode == "pooled")
        for each in products
    ]
    found = [node.manifest(f"node-{number}") for number, node in enumerate(nodes)]
    ledger.replace([node_from_object(each, policies.resource_names) for each in found], [])
    return policies, ledger


def decided(request: Request | InstanceRequest, mode: str, *products: str) -> dict[str, Any]:
    """The facts of a pod with that request, which a second review leaves unchanged."""
    policies, ledger = installed(mode, *products)
    annotations = dict(request.annotations)
    made = [container("train"), container("eval")] if CONTAINERS in annotations else None
    found = pod(fraction=None, labels=dict([request.label]), containers=made)
    found["metadata"]["annotations"] = annotations
    [explained] = Explainer(policies, ledger).explain(found)
    if explained.allowed:
        check_again(policies, ledger, review_of(explained.before), explained.pod)
    return explained.as_json()


def assert_denied(facts: dict[str, Any]) -> None:
    assert not facts["allowed"]
    assert 0 < len(facts["message"]) <= 200
    assert "\n" not in facts["message"]


@pytest.mark.parametrize("wanted", list(every_request()), ids=str)
def test_every_request(wanted: Request) -> None:
    facts = decided(wanted, wanted.mode, wanted.kind)
    if wanted.row is None:
        assert_denied(facts)
        if wanted.mode == "pooled" and GPUS in dict(wanted.annotations):
            assert facts["code"] == "gpus-not-allowed"
        return
    slices, mib = wanted.row
    annotations = facts["pod"]["metadata"]["annotations"]
    assert facts["slices"] == slices
    assert annotations.get("clearml-injector/memory-mib") == (None if mib is None else str(mib))
    if mib is None or isinstance(mib, int):
        assert facts["memoryMiB"] == mib
    else:
        assert facts["memoryMiB"] == sum(map(int, mib.split(",")))
    is_list = mib is None or wanted.gpus > 1
    assert facts["index"] == (wanted.indices if is_list else next(iter(wanted.indices), None))


@pytest.mark.parametrize("wanted", list(every_instance_request()), ids=str)
def test_every_request_in_mode_mig(wanted: InstanceRequest) -> None:
    facts = decided(wanted, "mig", wanted.product)
    assert facts["profile"] == wanted.profile
    assert facts["slices"] == wanted.eighths
    if wanted.profile is None:
        assert_denied(facts)
        return
    (task,) = facts["pod"]["spec"]["containers"]
    assert task["resources"]["limits"] == {wanted.resource: "1"}
    assert facts["index"] is None
    assert "clearml-injector/memory-mib" not in facts["pod"]["metadata"]["annotations"]
