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


class Truth:
    """What claims and slices hold: MiB or slices by node, card or index, and pod.

    Attributes:
        sizes: MiB of each card that claims can take, slices of each GPU.
    """

    def __init__(self, api, namespace, beside, sizes):
        self._api, self._namespace, self._beside, self.sizes = api, namespace, beside, sizes

    def held(self):
        return self._claims() + self._slices()

    def by_unit(self):
        """What is held and what is free of each card and GPU."""
        held = Counter()
        for (node, unit, _), amount in self.held().items():
            held[node, unit] += amount
        return {key: (held[key], size - held[key]) for key, size in self.sizes.items()}

    def quotas(self):
        """Slices and MiB of either namespace."""
        claims, slices = self._claims(), self._slices()
        eighths = [-(-8 * mib // self.sizes[node, unit]) for (node, unit, _), mib in claims.items()]
        yield self._namespace, sum(eighths), claims.total()
        yield self._beside, slices.total(), slices.total() * LARGE // 8

    def _claims(self):
        held = Counter()
        for claim in self._api.list("ResourceClaim", self._namespace, API):
            status = claim.get("status", {})
            for part in status.get("allocation", {}).get("devices", {}).get("results", []):
                key, [owner] = (part["pool"], part["device"]), status["reservedFor"]
                share = int(parse_quantity(part["consumedCapacity"]["share"]))
                held[*key, owner["name"]] += share * self.sizes[key] // SHARES_OF_CARD
        return held

    def _slices(self):
        return Counter(
            {
                (pod["spec"]["nodeName"], name.removeprefix("nvidia.com/gpu-"), pod["metadata"]["name"]): int(
                    amount
                )
                for pod in self._api.list("Pod", self._beside)
                if pod["spec"].get("nodeName")
                for name, amount in pod["spec"]["containers"][0]["resources"]["limits"].items()
            }
        )


def in_ledger(nodes, kubeconfig):
    """The account of `fraction-injector ledger`."""
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
    """The account of the page."""
    found, rows = Counter(), {}
    with httpx.stream("GET", f"{controller.page}stream", trust_env=False) as answer:
        for line in answer.iter_lines():
            if line == "event: whole":
                break
            if line.startswith("data: ["):
                rows |= {row["node"]: row for row in json.loads(line.removeprefix("data: "))}
    for node in nodes:
        for gpu in rows[node].get("gpus", ()):
            for share in gpu.get("shares", ()):
                found[node, gpu.get("card") or str(gpu["index"]), share["pod"]] += share["slices"]
    return found


def in_metrics(nodes, controller):
    """What is held and free of each card and GPU by the metrics."""
    text, found = controller.plain("/metrics/gpus"), {}
    for labels, amount in re.findall(r"^fraction_injector_\w+{(.*)} (\d+)$", text, re.MULTILINE):
        of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if of["node"] in nodes:
            key = of["node"], of.get("card") or of["gpu"]
            found.setdefault(key, {})[of["state"]] = int(amount)
    return {key: (of.get("claimed", of.get("used")), of["free"]) for key, of in found.items()}


def in_quotas(namespace, kubeconfig):
    """Slices and MiB of each namespace, as `fraction-injector quota` counts them."""
    ended = run("quota", "-o", "json", "--kubeconfig", kubeconfig, f"--release={namespace}/quota")
    assert ended.returncode == 0, ended.stderr
    return [
        (each["name"], each["slices"]["used"], each["memoryMiB"]["used"]) for each in json.loads(ended.stdout)
    ]


def test_ledger_page_metrics_quota_and_why_say_what_claims_and_slices_say(  # noqa: PLR0913, PLR0917 fixtures
    control_plane, namespace, beside, offer, nodes, serve
):
    api, kubeconfig = control_plane.api, control_plane.kubeconfig
    one, two = offer([SMALL, SMALL], [LARGE])
    sizes = {(one, "gpu-0"): SMALL, (one, "gpu-1"): SMALL, (two, "gpu-0"): LARGE}
    policies = f"{POLICY}\n{QUOTAS % namespace}\n{SLICES % beside}{QUOTAS % beside}"
    controller, _ = serve(policies, "--claim-templates", "--page", "--page-port=0")
    stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quota-policies"}}
    stored["data"] = {"all.yaml": f"kind: Policy\nname: default\n{policies}"}
    api.create(stored, namespace)
    truth = Truth(api, namespace, beside, sizes)

    def compared():
        names = {node for node, _ in sizes}
        assert truth.held()
        eventually(lambda: in_ledger(names, kubeconfig) == truth.held(), "ledger")
        eventually(lambda: on_page(names, controller) == truth.held(), "page")
        eventually(lambda: in_metrics(names, controller) == truth.by_unit(), "metrics")
        assert in_quotas(namespace, kubeconfig) == list(truth.quotas())

    create(control_plane, namespace, ["eighth-0", "eighth-1", "eighth-2"])
    create(control_plane, namespace, ["half-0", "half-1"], "0.5")
    memory = asking_for_memory("10Gi")
    memory["spec"]["nodeSelector"] = {"kubernetes.io/hostname": two}
    admitted(control_plane, namespace, memory)
    eventually(lambda: len(running(control_plane, namespace)) == 6, "all run")
    compared()
    nodes(GpuNode(gpus=2), names=(f"{beside}-0",))
    sizes |= {(f"{beside}-0", "0"): 8, (f"{beside}-0", "1"): 8}
    for name, fraction in (("half", "0.500"), ("most", "0.875")):
        admitted(control_plane, beside, labelled_pod(name, fraction))
    eventually(lambda: len(running(control_plane, beside)) == 2, "they run")
    compared()
    create(control_plane, namespace, ["whole"], "1")
    most, node, unit = max((free, *key) for key, (_, free) in truth.by_unit().items() if key[1][0] == "g")
    said = f"the most free is {most} of {sizes[node, unit]} MiB on {node}"

    def why():
        return run("why", "whole", "--namespace", namespace, "--kubeconfig", kubeconfig).stdout

    eventually(lambda: said in why(), "why")
