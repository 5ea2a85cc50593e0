"""A new key of policies and queues that placement reads takes five files, all of them named here."""

import json
from pathlib import Path

import pytest

from tests.changed_checkout import changed_checkout, run_python

pytestmark = pytest.mark.slow

FILES = {
    Path("policies/model/schema.py"): [
        (
            "    replace_waiting: ReplaceWaiting | None",
            '    only_with_room: bool = False\n    """Deny pods that would have to wait."""\n',
        ),
        (
            "    share: ShareOf | None",
            '    only_with_room: bool | None = None\n    """Denial of pods that would have to wait."""\n',
        ),
    ],
    Path("policies/model/queue_overrides.py"): [
        ('    "prefer": (', '    "only_with_room": ("only_with_room",),\n'),
    ],
    Path("policies/loading/build.py"): [
        ("        assume=Assumption(", "        only_with_room=policy.only_with_room,\n"),
    ],
    Path("ledger/placement_request.py"): [
        (
            "    assume: Assumption | None = None\n\n    @property\n    def reservation",
            '    only_with_room: bool = False\n    """Whether the pod is denied if it must wait."""\n',
        ),
    ],
    Path("ledger/placement/choice.py"): [
        (
            "        contested = self._contested.pick(",
            (
                "        if request.demands.only_with_room:\n"
                '            return Unschedulable("no GPU has room now", is_for_now=True)\n'
            ),
        ),
    ],
}
"""What is added, and before what: the key of both kinds, that one replaces the other, and the demand on the
ledger. The tables and schemas are made from the model, and a queue's key is checked as the policy's is."""
POLICIES = """
{kind: Policy, name: default}
---
kind: Queues
queues: {patient: {}, urgent: {onlyWithRoom: true}}
"""
FULL = """
kind: Node
metadata: {name: full, labels: {nvidia.com/gpu.memory: "81920"}}
status: {allocatable: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu-0: 8}}
---
kind: Pod
metadata: {name: holder, namespace: default}
spec: {nodeName: full, containers: [{name: main, resources: {requests: {nvidia.com/gpu-0: 8}}}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {clearml-injector/fraction: "0.500", clearml-agent-queue-name: %s}}
spec: {containers: [{name: main, image: "ubuntu:24.04"}]}
---
"""
WIRE = """
from ledger.messages import read_request, write_request
from ledger.placement_request import Demands, PlacementRequest, RequestedShare
from modes.fraction import Fraction

sent = PlacementRequest(RequestedShare(Fraction(4, 8)), Demands(only_with_room=True))
print(read_request(write_request(sent)).demands.only_with_room)
"""


def explained(folder, tmp_path):
    """What a checkout decides for a pod of each queue on a cluster without room, by name."""
    policies = tmp_path / "policies"
    policies.mkdir()
    for file, text in (
        (policies / "all.yaml", POLICIES),
        (tmp_path / "inventory.yaml", FULL),
        (tmp_path / "pods.yaml", "".join(POD % (name, name) for name in ("patient", "urgent"))),
    ):
        file.write_text(text)
    options = "--policies", policies, "--inventory", tmp_path / "inventory.yaml", "--output", "json"
    ended = run_python(folder, "-m", "cli.main", "explain", tmp_path / "pods.yaml", *options)
    return [(facts["allowed"], facts["message"]) for facts in json.loads(ended.stdout or "[]")]


DENIED = "no GPU has room now"


def test_a_key_that_placement_reads_is_five_files(tmp_path):
    checkout = changed_checkout(tmp_path / "checkout", FILES)
    assert explained(checkout, tmp_path) == [(True, ""), (False, DENIED)]
    assert run_python(checkout, "-c", WIRE).stdout == "True\n"
    tables = run_python(checkout, "-m", "cli.main", "policy", "schema", "--tables").stdout
    assert "| `onlyWithRoom` | `false` | Deny pods that would have to wait. |" in tables
    assert "| `queues.<name>.onlyWithRoom` |  | Denial of pods that would have to wait. |" in tables
    assert run_python(checkout, "-m", "charts.generate").returncode == 0
    schema = json.loads((checkout / "charts/fraction-injector/values.schema.json").read_text())
    assert all("onlyWithRoom" in schema["$defs"][kind]["properties"] for kind in ("Policy", "QueueEntry"))


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_file_can_be_left_out(tmp_path, file):
    rest = {each: additions for each, additions in FILES.items() if each != file}
    found = explained(changed_checkout(tmp_path / "checkout", rest), tmp_path)
    assert (False, DENIED) not in found
