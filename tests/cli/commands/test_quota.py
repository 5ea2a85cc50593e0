"""fraction-injector quota, against an API server of a few lines."""

import json
import re

import pytest

from kube.names import FRACTION_LABEL, INJECTED_ANNOTATION, QUOTA_GATE
from tests.cli.commands.why_api import Api
from tests.cli.running import run, serve
from tests.cluster.objects import node, pod

CONFIG_MAP = "/api/v1/namespaces/gpu-fraction-injector/configmaps/fraction-injector-policies"
POLICIES = """
kind: Policy
name: default
quotas:
  namespaces: {team-a: {slices: 8, memoryMiB: 100000}, team-b: {slices: 16, maxPods: 2}}
---
kind: Queues
queues:
  Night: {namespaces: [team-b], quota: {slices: 4}}
"""


def holder(name, namespace, slices, queue=None, phase="Running"):
    found = pod(name)
    found["metadata"]["namespace"] = namespace
    found["metadata"]["labels"] = {"clearml-agent-queue-name": queue} if queue else {}
    amounts = {"nvidia.com/gpu-0": str(slices)}
    found["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    found["spec"]["nodeName"] = "gpu-a"
    found["status"] = {"phase": phase}
    return found


PODS = [
    holder("one", "team-a", 8),
    holder("over", "team-a", 8, phase="Succeeded"),
    holder("two", "team-b", 3, "night"),
    holder("three", "team-b", 1),
]


@pytest.fixture
def ask(monkeypatch):
    def call(*arguments, policies=POLICIES, pods=None):
        labelled = node("gpu-a")
        labelled["metadata"]["labels"] = {"nvidia.com/gpu.memory": "81920"}
        answers = {
            CONFIG_MAP: {"data": {"all.yaml": policies}},
            "/api/v1/nodes": {"items": [labelled]},
            "/api/v1/pods": {"items": PODS if pods is None else pods},
        }
        serve(monkeypatch, Api(answers))
        return run("quota", *arguments)

    return call


def test_each_quota_is_shown_with_what_is_used_of_it(ask):
    ended = ask()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [re.split(" {2,}", line) for line in ended.stdout.splitlines()] == [
        ["OF", "NAME", "SLICES", "PODS", "MIB", "WAITING"],
        ["namespace", "team-a", "8 of 8 (used up)", "1", "81920 of 100000", "0"],
        ["namespace", "team-b", "4 of 16", "2 of 2 (used up)", "40960", "0"],
        ["queue", "night", "3 of 4", "1", "30720", "0"],
    ]


def waiting(name, namespace, slices, queue=None):
    found = holder(name, namespace, slices, queue, phase="Pending")
    del found["spec"]["nodeName"]
    found["spec"]["schedulingGates"] = [{"name": QUOTA_GATE}]
    found["metadata"]["annotations"] = {INJECTED_ANNOTATION: "default"}
    found["metadata"]["labels"][FRACTION_LABEL] = "0.250"
    return found


def test_the_pods_that_wait_are_counted_for_each_of_their_quotas(ask):
    pods = [*PODS, waiting("four", "team-b", 2, "night"), waiting("five", "team-b", 1)]
    found = json.loads(ask("--output", "json", pods=pods).stdout)
    counted = [(each["name"], each["pods"]["used"], each["waiting"]) for each in found]
    assert counted == [("team-a", 1, 0), ("team-b", 2, 2), ("night", 1, 1)]


def test_one_namespaces_quotas_are_its_own_and_those_of_its_queues(ask):
    found = json.loads(ask("--namespace", "team-b", "--output", "json").stdout)
    assert [(each["of"], each["name"]) for each in found] == [("namespace", "team-b"), ("queue", "night")]
    assert found[0]["slices"] == {"used": 4, "limit": 16}
    assert found[1]["pods"] == {"used": 1, "limit": None}
    assert ask("-n", "team-b", "-A").stdout == ask().stdout
    assert ask("-n", "team-c").stdout == "no quota holds pods of namespace team-c\n"
    assert ask(policies="kind: Policy\nname: default\n").stdout == "no quota is given\n"


@pytest.mark.parametrize(
    ("policies", "options", "said"),
    [
        ("kind: Policy\nname: default\nlimitr: none\n", (), "limitr: unknown key"),
        (POLICIES, ("--release", "other/name"), "the quotas cannot be counted: the API server answered 403"),
        (POLICIES, ("--release", "other"), '--release "other" must be NAMESPACE/NAME, such as gpu-fraction-'),
    ],
)
def test_what_cannot_be_counted_is_said(ask, policies, options, said):
    ended = ask(*options, policies=policies)
    assert (ended.returncode, said in ended.stderr) == (2, True)
