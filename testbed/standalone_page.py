"""A standalone webhook that shows its page, over an inventory of a test's own."""

import json
import re
import ssl

import httpx

from testbed.process import WAIT_S, Process, start_on_free_ports
from testbed.product import COMMAND, GRACE_S, READY_S


def node(name, gpus=8, **annotations):
    """A node of A100s."""
    amounts = {f"nvidia.com/gpu-{index}": "8" for index in range(gpus)}
    labels = {"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready},
    }


def mig_node(name, *, instances):
    """A node of one A100 that is divided into MIG instances, by their profile."""
    made = node(name, gpus=0)
    made["status"]["allocatable"] = {f"nvidia.com/mig-{profile}": str(n) for profile, n in instances.items()}
    return made


def pod(  # noqa: PLR0913 - what differs between the tests
    name, node_name=None, *, index=0, slices=4, namespace="team", queue=None, profile=None
):
    """A pod that holds slices of one GPU, or instances of a profile."""
    limits = {f"nvidia.com/gpu-{index}" if profile is None else f"nvidia.com/mig-{profile}": str(slices)}
    labels = {"clearml-agent-queue-name": queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            **({"nodeName": node_name} if node_name else {}),
            "containers": [{"name": "task", "resources": {"limits": limits, "requests": limits}}],
        },
        "status": {"phase": "Running" if node_name else "Pending"},
    }


class Standalone:
    """The process."""

    def __init__(self, folder, *objects):
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self._command = [COMMAND, "webhook", "--self-signed", "--stop-delay=0", "--port=0"]
        self._ca_file = folder / "ca.pem"
        self._command += [f"--ca-file={self._ca_file}", f"--inventory={inventory}"]
        self.log = folder / "webhook.log"
        self.process, self._ports = start_on_free_ports(1, self._start, self._serves, READY_S)

    def _start(self, ports):
        self.log.write_text("")
        return Process([*self._command, f"--page-port={ports[0]}"], self.log, grace_s=GRACE_S)

    def _serves(self, _ports):
        return re.search(r'"event":"serving"', self.log.read_text()) is not None

    @property
    def page(self):
        """Its address."""
        return f"http://localhost:{self._ports[0]}/"

    def review(self, review):
        """Its answer to a review."""
        [line] = [line for line in self.log.read_text().splitlines() if '"event":"serving"' in line]
        url = f"https://localhost:{json.loads(line)['port']}/mutate"
        trust = ssl.create_default_context(cafile=str(self._ca_file))
        return httpx.post(url, json=review, verify=trust, trust_env=False, timeout=WAIT_S).json()["response"]

    def stop(self):
        """End it."""
        self.process.stop()

    def start_again(self):
        """Start it on the port that it had."""
        self.process = self._start(self._ports)
        self.process.until_ready(lambda: self._serves(self._ports), READY_S)
