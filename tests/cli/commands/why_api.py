"""An API server of a few lines, that lets the user of fraction-injector why read what the test says."""

import json
from datetime import UTC, datetime, timedelta

from cluster.kube_client import ApiError
from tests.cluster.objects import pod

NAMESPACE = "/api/v1/namespaces/team"
SAYS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu-3."


def ago(seconds):
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(**changes):
    found = pod("train")
    amounts = {"nvidia.com/gpu-3": "4"}
    found["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    metadata, status = found["metadata"], found.setdefault("status", {})
    metadata["labels"] = {"clearml-injector/fraction": "0.500"}
    metadata["annotations"] = {
        "clearml-injector/injected": "default@1",
        "clearml-injector/slices": "4",
        "clearml-injector/gpu-index": "3",
        "clearml-injector/memory-mib": "40960",
    }
    metadata["creationTimestamp"] = ago(600)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    metadata["ownerReferences"] = [owner]
    status["phase"] = "Pending"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SAYS}
    status["conditions"] = [condition]
    found["spec"].pop("nodeName", None)
    return found | changes


def event(kind, name, reason, message):
    about = {"metadata": {"name": "e"}, "involvedObject": {"kind": kind, "name": name}}
    return {**about, "reason": reason, "message": message, "count": 3, "lastTimestamp": ago(120)}


def ledger(name, *free):
    usable = {
        "type": "Usable",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": ago(1),
    }
    gpus = [gpu(index, left) for index, left in free]
    status = {"leaseTransition": 1, "slicesPerGpu": 8, "gpuMemoryMiB": 81920}
    return {"metadata": {"name": name}, "status": {**status, "conditions": [usable], "gpus": gpus}}


def gpu(index, free):
    share = {"namespace": "other", "name": "holder", "kind": "holder", "slices": 8 - free}
    sums = {"capacity": 8, "used": 8 - free, "free": free, "over": 0}
    return {"index": index, **sums, "shares": [share]}


class Api:
    """Answers by path; whatever it has no answer for is refused."""

    def __init__(self, answers):
        self.answers = {f"{NAMESPACE}/pods/train": ApiError(404, "not found"), **answers}

    async def request(self, method, path, *, query=None):
        assert method == "GET"
        selector = (query or {}).get("fieldSelector", "")
        answer = self.answers.get(
            f"{path}?{selector}" if selector else path, ApiError(403, f"no {path} for you")
        )
        if isinstance(answer, list):
            page = int((query or {}).get("continue", "0"))
            more = {"metadata": {"continue": str(page + 1)}} if page + 1 < len(answer) else {}
            answer = answer[page] if isinstance(answer[page], ApiError) else {**answer[page], **more}
        if isinstance(answer, ApiError):
            raise answer
        return json.dumps(answer).encode()
