"""fraction-injector ledger --uninjected, against an API server of a few lines."""

import json

import pytest

from tests.cli.commands.why_api import Api
from tests.cli.running import error_line, run, serve

LABEL = "clearml-injector/fraction"
INJECTED = {"clearml-injector/injected": "default@1"}


def pod(name, limits=None, *, env=None, phase="Running", **metadata):
    container = {"name": "main", "image": "x", "resources": {"limits": limits or {}}, "env": env or []}
    metadata = {"name": name, "namespace": "team", **metadata}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": phase}}


def sees(value):
    return [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]


CLEAN = [
    pod("cpu", {"cpu": "1"}),
    pod("ours", {"nvidia.com/gpu-0": "4"}, labels={LABEL: "0.500"}, annotations=INJECTED),
    pod("over", {"nvidia.com/gpu": "1"}, phase="Succeeded"),
    pod("none", {"nvidia.com/gpu": "0"}, env=sees("void")),
    pod("refused", labels={LABEL: "0.500"}, annotations={"clearml-injector/no-share": "queue x"}),
    pod("no GPU", {"example.com/fpga": "1", "nvidia.com/hostdev": "1"}),
]


@pytest.fixture
def ask(monkeypatch):
    def call(pages, *arguments):
        path = "/api/v1/namespaces/team/pods" if "-n" in arguments else "/api/v1/pods"
        serve(monkeypatch, Api({path: [{"items": page} for page in pages]}))
        return run("ledger", "--uninjected", *arguments)

    return call


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (
            pod("a", annotations={LABEL: "0.500"}),
            f"annotation {LABEL} has no effect as an annotation: write it as",
        ),
        (pod("a", labels={LABEL: "0.500"}), f'label {LABEL} "0.500" has no effect: delete it and create it'),
        (pod("a", {"nvidia.com/gpu": "1"}), "container main requests nvidia.com/gpu: 1"),
        (pod("a", {"nvidia.com/gpu-3": "4"}), "container main requests nvidia.com/gpu-3: 4"),
        (pod("a", {"nvidia.com/mig-1g.10gb": 1}), "container main requests nvidia.com/mig-1g.10gb: 1"),
        (pod("a", {"amd.com/gpu": 2}), "container main requests amd.com/gpu: 2"),
        (pod("a", env=sees("all")), "container main has NVIDIA_VISIBLE_DEVICES=all"),
    ],
)
def test_a_pod_that_uses_gpus_and_was_never_injected_is_listed_with_the_reason(ask, found, why):
    found["spec"]["nodeName"] = "gpu-a"
    ended = ask([CLEAN, [found]])
    assert ended.returncode == 1
    [head, row] = ended.stdout.splitlines()
    assert head.split() == ["NAMESPACE", "POD", "NODE", "WHY"]
    assert row.startswith(f"team       a    gpu-a  {why}")
    [entry] = json.loads(ask([CLEAN, [found]], "--output", "json").stdout)
    assert entry == {"namespace": "team", "pod": "a", "node": "gpu-a", "why": row[23:]}


def test_init_containers_and_names_of_ones_own_are_looked_at_too(ask):
    init = pod("a")["spec"]["containers"][0] | {"resources": {"requests": {"example.com/card-1": "8"}}}
    found = pod("a")
    found["spec"]["initContainers"] = [init]
    assert ask([[found]]).returncode == 0
    ended = ask([[found]], "--gpu-resource", "example.com/card-{index}")
    assert "requests example.com/card-1: 8" in ended.stdout


@pytest.mark.parametrize("wrong", [{"status": None}, {"spec": {}}, {"spec": {"containers": ["c"]}}])
def test_a_pod_that_cannot_be_read_is_named_in_one_line(ask, wrong):
    assert "pods cannot be listed: team/a: it is no pod" in error_line(ask([[pod("a") | wrong]]))


def test_where_all_is_well_or_may_not_be_seen_it_says_so(ask):
    ended = ask([CLEAN], "-n", "team")
    assert (ended.returncode, ended.stdout) == (0, "every pod that uses a GPU was injected\n")
    unread = error_line(ask([CLEAN], "--namespace", "team"))
    assert unread.startswith("pods cannot be listed: the API server answered 403")


@pytest.mark.parametrize("others", [["--node", "a"], ["--watch"], ["--suggest"], ["--free", "1"]])
def test_options_of_the_ledger_itself_are_refused(ask, others):
    assert others[0] in error_line(ask([CLEAN], *others))
