"""fraction-injector explain: the inventory that it decides by."""

import json

import pytest

from tests.cli.running import MANIFESTS, error_line, run, write

BARE = MANIFESTS / "bare.yaml"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("kind: ConfigMap", "kind ConfigMap is not a Node: an inventory is `kubectl get nodes -o yaml`"),
        (
            "kind: Pod\nmetadata: {name: a, namespace: b}\nspec: {}",
            "holds no Node: an inventory is what `kubectl get nodes -o yaml` prints",
        ),
        ("", "contains no object: add a Kubernetes object with apiVersion and kind"),
        ("kind: Node\nmetadata: x", "Node: metadata is 'x': it must be an object"),
    ],
)
def test_an_inventory_of_the_wrong_kind_is_named(tmp_path, text, wrong):
    inventory = tmp_path / "nodes.yaml"
    inventory.write_text(text)
    assert error_line(run("explain", BARE, "--inventory", inventory)) == f"{inventory}: {wrong}"


NODE = "kind: Node\nmetadata: {name: n%s}\nstatus: {allocatable: {nvidia.com/gpu-0: 8}}\n---\n"
GPU_NODE = "kind: GpuNode\nmetadata: {name: n%s}\nstatus: {registered: %s, gpus: []}\n---\n"


@pytest.mark.parametrize(
    ("inventory", "node"),
    [
        (NODE % 1 + NODE % 2 + GPU_NODE % (2, "true"), "n2"),
        (NODE % 1 + GPU_NODE % (1, "false"), None),
        (NODE % 1, "n1"),
    ],
)
def test_an_inventory_may_tell_where_an_agent_runs(tmp_path, inventory, node):
    (tmp_path / "nodes").write_text(inventory)
    write(tmp_path, default="kind: Policy\nname: default\nlimits: {from: agent}\n")
    options = "--policies", tmp_path, "--inventory", tmp_path / "nodes", "--output", "json"
    [facts] = json.loads(run("explain", BARE, *options).stdout)
    assert facts["allowed"]
    affinity = facts["pod"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    assert [term["preference"]["matchFields"][0]["values"] for term in terms] == ([[node]] if node else [])


def test_without_an_inventory_it_says_whose_nodes_it_takes():
    result = run("explain", BARE, "--output", "json")
    assert json.loads(result.stdout)[0]["allowed"]
    assert result.stderr == "inventory: inventory.yaml of the demo (use --inventory FILE for yours)\n"
