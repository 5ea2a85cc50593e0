"""fraction-injector explain: decisions, exit statuses, and the printed shapes."""

import json

import pytest

from testbed.gpu_nodes import GpuNode
from tests.cli.running import FIXTURES, MANIFESTS, all_facts, as_yaml, explain, facts_of, run, write
from tests.webhook.support import LABEL, container, pod

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["pods"]
ROOM_OF_INVENTORY = 15
"""Pods of 0.750: one for each of its GPUs."""
CONTRACT = ["allowed", "code", "message", "slices", "index", "memoryMiB", "container", "patch", "pod"]
OURS = ["policy", "queue", "limiter", "limitsFrom", "place", "sameModel", "owner", "model", "kinds", "alias"]
OURS += ["profile", "claim", "prefer", "passedOver", "hasRoom", "notes"]


@pytest.fixture(scope="module")
def explained():
    """Every fixture by its name, explained in one run of the command."""
    ended = explain("--output", "json", *(MANIFESTS / f"{name}.yaml" for name in EXPECTED))
    assert ended.returncode == 1
    return dict(zip(EXPECTED, json.loads(ended.stdout), strict=True))


def test_every_fixture_is_decided_as_promised(explained):
    for name, facts in explained.items():
        promised = {key: value for key, value in EXPECTED[name].items() if key not in ("why", "note")}
        assert {key: facts[key] for key in promised} == promised, name


@pytest.mark.parametrize("name", EXPECTED)
def test_the_printed_object_has_exactly_the_documented_keys(name, explained):
    facts = explained[name]
    assert sorted(facts) == sorted([*CONTRACT, *OURS])
    assert bool(facts["message"]) != facts["allowed"]
    of_share = [facts[key] for key in ("slices", "index", "memoryMiB", "container")]
    assert None not in of_share if facts["allowed"] else [*of_share, *facts["patch"]] == [None] * 4


def test_pods_for_which_nothing_is_left_are_said_to_wait():
    text = "---\n".join(as_yaml(pod(fraction="0.750")) for _ in range(ROOM_OF_INVENTORY + 1))
    printed = explain("-", "--together", text=text).stdout
    *with_room, last = printed.splitlines()
    assert last.endswith("; no node has room for it now: it would wait")
    assert not [each for each in with_room if "would wait" in each]
    found = all_facts("-", "--together", text=text)
    assert [facts["hasRoom"] for facts in found] == [True] * ROOM_OF_INVENTORY + [False]


def test_of_several_pods_each_is_one_line_and_with_diff_or_patch_all_that_is_said_of_one():
    found = [pod(), pod(fraction="0.5"), pod(fraction=None, labels={"app": "a"}), pod(fraction=None)]
    found[2]["metadata"]["annotations"] = {LABEL: "0.500"}
    found[3]["metadata"]["name"] = found[3]["spec"]["containers"][0]["name"] = "twice"
    found[3]["metadata"]["labels"] = {LABEL: "0.250"}
    texts = list(map(as_yaml, found))
    share, denied, noted, like_pod = explain("-", text="---\n".join(texts)).stdout.splitlines()
    assert share == "task: allowed (injected): container train: 4 slices of GPU 0, 11514 MiB"
    assert denied.startswith(f'task: denied (label-not-allowed): {LABEL} "0.5" is not allowed: use 0.125, ')
    assert noted.startswith(
        f"task: allowed (not-labelled): annotation {LABEL} has no effect as an annotation"
    )
    assert like_pod == "twice: allowed (injected): 2 slices of GPU 0, 5757 MiB"
    for option in ("--diff", "--patch"):
        alone = [explain("-", option, text=each).stdout for each in texts]
        assert explain("-", option, text="---\n".join(texts)).stdout == "".join(alone)


@pytest.fixture
def spreading(tmp_path):
    """Policies that spread replicas, and keep them to one model."""
    text = "kind: Policy\nname: default\nplace: spread\nsameModel: true\n"
    (tmp_path / "default.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({"ownerReferences": [{"kind": "Job", "name": "a", "uid": "u", "controller": True}]}, "Job a"),
        ({"generateName": "web-"}, "pods named web-*"),
        ({"labels": {LABEL: "0.500", "clearml-agent-queue-name": "large"}}, "queue large"),
        ({}, None),
    ],
)
def test_a_replica_learns_whose_it_is_and_what_that_means(spreading, metadata, owner):
    text = as_yaml(pod(metadata=metadata))
    assert facts_of(text, "--policies", spreading)["owner"] == owner
    out = explain("-", "--policies", spreading, text=text).stdout
    if owner is None:
        assert "  place pack: neither controller, generateName nor queue name the pod's owner" in out
        return
    assert f"\n  place spread: away from other pods of {owner}, over nodes and then over GPUs\n" in out
    assert f"\n  sameModel: GPUs of one model for all pods of {owner}: " in out


def test_the_kinds_of_gpu_that_remain_are_listed():
    found = pod(fraction=None, labels={"clearml-injector/gpu-memory": "9Gi"})
    found["metadata"]["annotations"] = {"clearml-injector/gpu-model": "A100-80,H100*"}
    out = run("explain", "-", text=as_yaml(found)).stdout
    assert "GPUs that the pod may get: A100-SXM4-80GB of 81920 MiB (1 node), NVIDIA-H100-80GB-HBM3" in out
    assert "container train: 1 slice of GPU 0, 9216 MiB" in out


@pytest.mark.parametrize("mode", ["per-gpu", "pooled"])
def test_a_share_that_an_agent_limits_is_said_with_the_mib_of_its_slices(tmp_path, mode):
    policy = f"kind: Policy\nname: default\nlimits: {{from: agent}}\nresources: {{mode: {mode}}}\n"
    (tmp_path / "default.yaml").write_text(policy + "memory: {reserveMiB: 96}\n")
    node = GpuNode(gpus=2, memory_mib=24564, pooled=mode == "pooled").manifest("a")
    (tmp_path / "nodes.json").write_text(json.dumps(node))
    text = as_yaml(pod(fraction=None, labels={"clearml-injector/gpu-memory": "4Gi"}))
    options = "--inventory", tmp_path / "nodes.json", "--policies", tmp_path
    out = run("explain", "-", *options, text=text).stdout
    gpu = "0" if mode == "per-gpu" else "any (pooled)"
    assert "policy default, limits from the agent of its node" in out
    assert f"2 slices of GPU {gpu}, limited to 6045 MiB by the agent: the size of the slices on" in out


def test_of_equal_shares_of_several_gpus_it_is_said_what_each_one_has():
    out = explain("-", text=as_yaml(pod(metadata={"annotations": {"clearml-injector/gpus": "2"}}))).stdout
    assert "container train: 4 slices of each of GPU 0 and 1, 40960 MiB each\n" in out


def test_whole_gpus_of_a_pool_are_any(tmp_path):
    keys = "resources: {mode: pooled}\nfractions: {'2.0': 16}\n"
    write(tmp_path, default=f"kind: Policy\nname: default\n{keys}")
    (tmp_path / "nodes.json").write_text(json.dumps(GpuNode(gpus=2, pooled=True).manifest("a")))
    options = "--inventory", tmp_path / "nodes.json", "--policies", tmp_path
    out = run("explain", "-", *options, text=as_yaml(pod(fraction="2.0"))).stdout
    assert "container train: 16 slices of GPU any (pooled)\n" in out


def test_the_agents_limit_of_each_of_several_containers_is_said(tmp_path):
    write(tmp_path, default="kind: Policy\nname: default\nlimits: {from: agent}\n")
    parts = {"annotations": {"clearml-injector/containers": "train=0.500,eval=0.250"}}
    found = pod(fraction="0.750", metadata=parts, containers=[container("train"), container("eval")])
    out = explain("-", "--policies", tmp_path, text=as_yaml(found)).stdout
    assert "    train: 4 of nvidia.com/gpu-0, limited to 11514 MiB by the agent\n" in out
    assert "    eval: 2 of nvidia.com/gpu-0, limited to 5757 MiB by the agent\n" in out


def test_a_pod_of_a_queue_that_gives_no_share_shows_what_is_taken_out(tmp_path):
    queues = "kind: Queues\nqueues:\n  services: {share: none}\n"
    write(tmp_path, default="kind: Policy\nname: default\n", queues=queues)
    labels = {"clearml-agent-queue-name": "services"}
    text = as_yaml(pod(labels=labels, containers=[container(limits={"nvidia.com/gpu": "1"})]))
    out = run("explain", "-", "--policies", tmp_path, text=text).stdout
    assert "task: allowed (no-share)" in out
    assert "queue services gives no share: label and GPU limits are removed" in out
    assert {"  -    clearml-injector/fraction: '0.500'", "  -        nvidia.com/gpu: '1'"} < {
        *out.splitlines()
    }


def test_a_claim_is_shown_with_what_its_template_asks_for(tmp_path):
    write(tmp_path, all="{kind: Policy, name: default, resources: {mode: dra}}")
    out = explain("-", "--policies", tmp_path, text=as_yaml(pod())).stdout
    assert "container train: claim of template gpu-fraction-4of8-" in out
    claim = facts_of(as_yaml(pod()), "--policies", tmp_path)["claim"]
    assert claim["template"].startswith("gpu-fraction-4of8-")
    [request] = claim["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"share": "500k"}}


def test_an_unlabelled_pod_with_a_key_of_ours_is_told_that_it_has_no_effect():
    found = pod(fraction=None, metadata={"annotations": {LABEL: "0.500"}}, labels={"app": "a"})
    facts = facts_of(as_yaml(found))
    wrong = f"annotation {LABEL} has no effect as an annotation: write it as a label"
    assert (facts["code"], facts["message"], facts["notes"]) == ("not-labelled", "", [wrong])
    assert wrong in explain("-", text=as_yaml(found)).stdout
    assert facts_of(as_yaml(pod()))["notes"] == []


NOTEBOOK = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "Notebook",
    "metadata": {"name": "nb", "labels": {LABEL: "0.250"}},
    "spec": {"template": {"spec": {"containers": [{"name": "nb", "resources": {}}]}}},
}


def test_kubeflow_gives_the_labels_of_a_notebook_to_its_pod_and_what_has_no_pods_is_passed_over():
    service = "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 1}]}\n"
    assert facts_of(f"{service}---\n{as_yaml(NOTEBOOK)}")["slices"] == 2


def test_of_a_pod_that_was_injected_before_it_is_not_said_that_no_node_has_room():
    stored = facts_of(as_yaml(pod()))["pod"]
    again = facts_of(as_yaml(stored))
    assert (again["code"], again["hasRoom"]) == ("unchanged", None)
