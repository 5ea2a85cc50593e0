"""A thousand reloads while pods are reviewed: every answer is whole, and of one set."""

import asyncio
import json
import re

from cli.explainer import patch_of, review_of
from cli.manifests import read_inventory
from ledger.ledger import Ledger
from policies.loading.reload import LivePolicies
from tests.policies.console import ROOT
from tests.policies.kubelet import Mount
from webhook.placing.placer import LedgerPlacer
from webhook.review import Reviewer
from webhook.rules import Rules

RELOADS = 1000
GPU_MIB = 81920
PAUSE_S = 0.001
"""Between two reviews, so that the reload gets its share of the interpreter."""


def files(number):
    """A set whose variable, reserve and resource limits all tell its number; every tenth is broken too."""
    default = f"kind: Policy\nname: default\nmemory: {{reserveMiB: {number}}}\nenv: {{NUMBER: '{number}'}}\n"
    queues = f"kind: Queues\nqueues:\n  q:\n    quota: {{slices: {number}}}\n"
    broken = {"broken": "kind: Policy\nname: [\n"} if number % 10 == 0 else {}
    return {"default": default, "queues": queues} | broken


def number_of(reply):
    """The number of the set that an answer was made under; fails unless all its parts agree."""
    assert reply["response"]["allowed"] is True
    operations = {operation["path"]: operation["value"] for operation in patch_of(reply)}
    env = {variable["name"]: variable["value"] for variable in operations["/spec/containers/0/env"]}
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{GPU_MIB // 2 - int(env['NUMBER'])}m"
    annotations = operations["/metadata/annotations"]
    assert re.fullmatch(r"default@[0-9a-f]{12}", annotations["clearml-injector/injected"])
    return int(env["NUMBER"]), annotations["clearml-injector/injected"]


def test_every_answer_during_a_thousand_reloads_is_of_one_good_set(tmp_path):
    mount = Mount(tmp_path)
    mount.write(**files(1))
    live = LivePolicies(tmp_path)
    found = read_inventory(ROOT / "examples" / "demo" / "inventory.yaml", live.current.resource_names)
    ledger = Ledger()
    ledger.replace([node for node in found.nodes if node.gpu_mib == GPU_MIB], found.pods)
    reviewer = Reviewer(lambda: live.current, Rules(), LedgerPlacer(ledger), lambda *_: None)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"clearml-injector/fraction": "0.500"}},
        "spec": {"containers": [{"name": "train", "image": "a/b:1"}]},
    }
    body = json.dumps(review_of(pod)).encode()

    async def scenario():
        answers = []
        for number in range(2, RELOADS + 2):
            mount.write(**files(number))
            reloading = asyncio.create_task(asyncio.to_thread(live.reload))
            while not reloading.done():
                answers.append(number_of(json.loads(await reviewer.review(body))))
                await asyncio.wait({reloading}, timeout=PAUSE_S)
        return answers

    answers = asyncio.run(scenario())
    numbers = [number for number, _ in answers]
    assert len(answers) >= RELOADS
    assert numbers == sorted(numbers)
    assert not any(number % 10 == 0 for number in numbers)
    assert len({marker for _, marker in answers}) == len(set(numbers)) > 1
