"""What every view says of claims, and of slices beside them, is what the API server's objects say."""

import json
import re
from collections import Counter

import httpx
import pytest

from kube.dra import SHARES_OF_CARD
from kube.quantity import parse_quantity
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import asking_for_memory, labelled_pod
from tests.cli.running import run
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import API, POLICY, admitted, create, running

device_class, offer = test_claims_of_shares.device_class, test_claims_of_shares.offer
pytestmark = test_claims_of_shares.pytestmark
SMALL, LARGE = 40960, 81920
QUOTAS = "quotas: {namespaces: {%s: {slices: 99, memoryMiB: 999999}}}"
SLICES = "---\nkind: Policy\nname: slices\nnamespaces: [%s]\nresources: {mode: per-gpu}\n"


@pytest.fixture
def beside(control_plane, namespace):
    """A namespace of mode per-gpu."""
    name = f"{namespace}-slices"
    control_plane.create_namespace(name)
    yield name
    control_plane.api.delete_all("Pod", name)


@pytest.fixture
def controller(control_plane, namespace, beside, serve):
    """A controller with a page; the policies are also where `quota` reads them."""
    policies = f"{POLICY}\n{QUOTAS % namespace}\n{SLICES % beside}{QUOTAS % beside}"
    stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quota-policies"}}
    stored["data"] = {"all.yaml": f"kind: Policy\nname: default\n{policies}"}
    control_plane.api.create(stored, namespace)
    return serve(policies, "--claim-templates", "--page", "--page-port=0")[0]


def held_of(api, namespace, beside, sizes):
    """MiB that claims hold of cards, and slices that pods hold of GPUs, by node, unit and pod; all run."""
    held = Counter()
    for claim in api.list("ResourceClaim", namespace, API):
        [part], [pod] = claim["status"]["allocation"]["devices"]["results"], claim["status"]["reservedFor"]
        card = part["pool"], part["device"]
        share = int(parse_quantity(part["consumedCapacity"]["share"]))
        held[*card, pod["name"]] = share * sizes[card] // SHARES_OF_CARD
    for pod in api.list("Pod", beside):
        [(name, slices)] = pod["spec"]["containers"][0]["resources"]["limits"].items()
        unit = name.removeprefix("nvidia.com/gpu-")
        held[pod["spec"]["nodeName"], unit, pod["metadata"]["name"]] = int(slices)
    return held


def in_ledger(nodes, kubeconfig):
    """The same by `fraction-injector ledger`."""
    found = Counter()
    for item in json.loads(run("ledger", "-o", "json", "--kubeconfig", kubeconfig).stdout):
        if item["kind"] == "card" and item["node"] in nodes:
            for share in item["shares"]:
                found[item["node"], item["device"], share["pod"]] += share["memoryMiB"]
        elif item["kind"] == "node" and item["name"] in nodes:
            for gpu in item["gpus"]:
                for share in gpu["shares"]:
                    found[item["name"], gpu["name"], share["name"]] += share["slices"]
    return found


def on_page(nodes, controller):
    """The same by the page."""
    found = Counter()
    with httpx.stream("GET", f"{controller.page}stream", trust_env=False) as answer:
        for line in answer.iter_lines():
            if line == "event: whole":
                return found
            for row in json.loads(line.removeprefix("data: ")) if line.startswith("data: [") else ():
                for gpu in row.get("gpus", ()) if row["node"] in nodes else ():
                    for share in gpu.get("shares", ()):
                        found[row["node"], gpu.get("card") or str(gpu["index"]), share["pod"]] += share[
                            "slices"
                        ]
    return found


def in_metrics(nodes, controller):
    """What is held and what is free of each unit by the metrics."""
    text, found = controller.plain("/metrics/gpus"), {}
    for labels, amount in re.findall(r"^fraction_injector_\w+{(.*)} (\d+)$", text, re.MULTILINE):
        of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if of["node"] in nodes:
            found.setdefault((of["node"], of.get("card") or of["gpu"]), {})[of["state"]] = int(amount)
    return {key: (of.get("claimed", of.get("allocated")), of["free"]) for key, of in found.items()}


def test_ledger_page_metrics_quota_and_why_say_what_claims_and_slices_say(  # noqa: PLR0913, PLR0917 fixtures
    control_plane, namespace, beside, offer, nodes, controller
):
    api, kubeconfig = control_plane.api, control_plane.kubeconfig
    small, large = offer([SMALL, SMALL], [LARGE])
    sizes = {(small, "gpu-0"): SMALL, (small, "gpu-1"): SMALL, (large, "gpu-0"): LARGE}

    def compared():
        """What is free, after each view has said what is held."""
        held, names = held_of(api, namespace, beside, sizes), {node for node, _ in sizes}
        used, slices, mib = Counter(), Counter(), Counter()
        for (node, unit, _), amount in held.items():
            used[node, unit] += amount
            owner = namespace if unit.startswith("gpu-") else beside
            slices[owner] += -(-8 * amount // sizes[node, unit])
            mib[owner] += amount if owner == namespace else amount * LARGE // 8
        states = {key: (used[key], size - used[key]) for key, size in sizes.items()}
        eventually(lambda: in_ledger(names, kubeconfig) == held, "the ledger says it")
        eventually(lambda: on_page(names, controller) == held, "the page says it")
        eventually(lambda: in_metrics(names, controller) == states, "the metrics say it")
        told = run("quota", "-o", "json", "--kubeconfig", kubeconfig, f"--release={namespace}/quota")
        quotas = {
            each["name"]: (each["slices"]["used"], each["memoryMiB"]["used"])
            for each in json.loads(told.stdout)
        }
        assert quotas == {name: (slices[name], mib[name]) for name in (namespace, beside)}
        return states

    # More than one card of the first node, and a part of the other's: none is left for a whole card.
    on_small, on_large = ({"nodeSelector": {"kubernetes.io/hostname": node}} for node in (small, large))
    create(control_plane, namespace, ["eighth-0", "eighth-1", "eighth-2"], **on_small)
    create(control_plane, namespace, ["half-0", "half-1"], "0.5", **on_small)
    memory = asking_for_memory("10Gi")
    memory["spec"] |= on_large
    admitted(control_plane, namespace, memory)
    eventually(lambda: len(running(control_plane, namespace)) == 6, "all run")
    compared()
    nodes(GpuNode(gpus=2), names=(beside,))
    sizes |= {(beside, "0"): 8, (beside, "1"): 8}
    for name, fraction in (("half", "0.500"), ("most", "0.875")):
        admitted(control_plane, beside, labelled_pod(name, fraction))
    eventually(lambda: len(running(control_plane, beside)) == 2, "they run")
    states = compared()
    create(control_plane, namespace, ["whole"], "1")
    free, node, unit = max((free, *key) for key, (_, free) in states.items())
    why = "why", "whole", "--namespace", namespace, "--kubeconfig", kubeconfig
    said = f"the most free is {free} of {sizes[node, unit]} MiB on {node}"
    eventually(lambda: said in run(*why).stdout, "why says what is free")
