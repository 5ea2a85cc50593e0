"""A standalone webhook that shows its page, over an inventory of a test's own."""

import json

from testbed.gpu_nodes import GpuNode
from testbed.process import free_ports
from testbed.product import POLICIES, Setup, Webhook


def node(name, gpus=8, instances=None, **annotations):
    """A node of A100s that is ready, or of MIG instances by their profile."""
    given = {f"nvidia.com/mig-{profile}": count for profile, count in (instances or {}).items()}
    made = GpuNode(gpus, instances=given).manifest(name)
    made["metadata"]["annotations"] = annotations
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
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


class Standalone(Webhook):
    """The process."""

    def __init__(self, folder, *objects):
        inventory, ca_file = folder / "inventory.json", folder / "ca.pem"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        [page_port] = free_ports(1)
        self.page = f"http://localhost:{page_port}/"
        options = ["--self-signed", f"--ca-file={ca_file}", f"--page-port={page_port}"]
        super().__init__(Setup(POLICIES, inventory), folder, options, ca_file)

    def review(self, review):
        """Its answer to a review."""
        with self.relay() as ask:
            return json.loads(ask(json.dumps(review).encode()))["response"]
