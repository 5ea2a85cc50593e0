"""Run with `python -m bench.large_cluster NODES PODS WAITING`: an API server whose cluster is made up.

It answers lists in pages, keeps watches open with a pod that changes now and then, takes every write, and
holds one Lease. `GET /bench/forget` makes it forget all versions, so that watches end and lists begin again.
Prints its port once it serves.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import uvloop

NODES = 10_000


def node_object(number: int) -> dict[str, Any]:
    """One of the nodes as the API server writes it."""
    name = f"gpu-{number:05}"
    labels = {f"feature.node.kubernetes.io/cpu-{bit}": "true" for bit in range(20)}
    labels |= {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "8"}
    amounts = {"cpu": "96", "memory": "791Gi", "pods": "110"} | {f"nvidia.com/gpu-{i}": "8" for i in range(8)}
    kinds = {"MemoryPressure": "False", "PIDPressure": "False", "Ready": "True"}
    images = [{"names": [f"registry.example/i@sha256:{i:064}"], "sizeBytes": 10**9} for i in range(20)]
    return {
        "metadata": {
            "name": name,
            "uid": f"{number:032x}",
            "labels": labels,
            "annotations": {"note": "x" * 200},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example://{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": kind, "status": status} for kind, status in kinds.items()],
            "images": images,
        },
    }


def pod_object(number: int) -> dict[str, Any]:
    """One of the pods, bound to a node."""
    gpu = f"nvidia.com/gpu-{number // NODES % 8}"
    asked = {"cpu": f"{500 + number % 7 * 250}m", "memory": "4Gi", gpu: "4"}
    mounts = [{"name": f"volume-{i}", "mountPath": f"/mnt/volume-{i}", "readOnly": True} for i in range(4)]
    name = f"clearml-id-{number:032x}"
    container = {
        "name": name,
        "image": "nvidia/cuda:12.3.1-runtime-ubuntu22.04",
        "args": ["echo " + "x" * 600],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value of the variable {i}"} for i in range(12)],
        "resources": {"limits": asked, "requests": asked},
        "volumeMounts": mounts,
    }
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 40}",
            "uid": f"{number:032x}",
            "labels": {"clearml-injector/fraction": "0.500", "clearml-agent-queue-name": "queue"},
            "annotations": {"clearml-injector/reservation": f"{number:032x}", "clearml-injector/slices": "4"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {f"f:{i}": {"f:x": {}} for i in range(20)}}],
        },
        "spec": {
            "nodeName": f"gpu-{number % NODES:05}",
            "containers": [container],
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(4)],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


CHANGES_PER_SECOND = 100
_SAMPLE = 0x123456789ABCDEF
"""A number whose text appears in an object only where it stands for the object."""


class LargeCluster:
    """Nodes and pods by number, made when they are asked for."""

    def __init__(self, nodes: int, pods: int, waiting: int) -> None:
        self._counts = {"nodes": nodes, "pods": pods + waiting}
        self._nodes = nodes
        self._bound = pods
        self._node = json.dumps(node_object(0))
        self._pod, self._waiting = json.dumps(pod_object(_SAMPLE)), json.dumps(_waiting(pod_object(_SAMPLE)))
        self._watches: set[asyncio.StreamWriter] = set()
        self._lease: dict[str, Any] | None = None
        self._version = 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of one connection until it ends."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.lower().split("\r\n")
                lengths = [line.split(":")[1] for line in lines if line.startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0])) if lengths else b""
                method, target, _ = head.split(" ", 2)
                await self._answer(method, target, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._watches.discard(writer)
            writer.close()

    async def change(self) -> None:
        """Tell every watch of pods of a changed pod, again and again."""
        number = 0
        while True:
            await asyncio.sleep(1 / CHANGES_PER_SECOND)
            number = (number + 7919) % self._bound
            pod = self._object("pods", number).replace('"4Gi"', f'"{4 + self._version % 2}Gi"')
            self._report("MODIFIED", pod)

    def _report(self, event: str, pod: str) -> None:
        """Tell every watch of pods of an event."""
        self._version += 1
        for writer in self._watches:
            _chunk(writer, f'{{"type":"{event}","object":{pod}}}\n'.encode())

    async def _answer(self, method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        resource = parts.path.rpartition("/")[2]
        if parts.path == "/bench/forget":
            self._forget()
            reply(writer, b"{}")
        elif "watch" in query:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            if resource == "pods":
                self._watches.add(writer)
        elif resource in self._counts:
            reply(writer, self._page(resource, query))
        elif "/leases" in parts.path:
            self._lease_answer(method, body, writer)
        else:
            reply(writer, b'{"items":[],"metadata":{}}' if method == "GET" else body or b"{}")
        await writer.drain()

    def _page(self, resource: str, query: Mapping[str, str]) -> bytes:
        first, count = int(query.get("continue", 0)), self._counts[resource]
        last = min(count, first + int(query.get("limit", count)))
        more = {"continue": str(last)} if last < count else {}
        metadata = json.dumps({"resourceVersion": "1", **more})
        items = ",".join([self._object(resource, number) for number in range(first, last)])
        return f'{{"kind":"List","metadata":{metadata},"items":[{items}]}}'.encode()

    def _object(self, resource: str, number: int) -> str:
        if resource == "nodes":
            return self._node.replace("gpu-00000", f"gpu-{number:05}")
        text = self._pod if number < self._bound else self._waiting
        text = text.replace(f"{_SAMPLE:032x}", f"{number:032x}")
        text = text.replace(f"gpu-{_SAMPLE % NODES:05}", f"gpu-{number % self._nodes:05}")
        gpu = f"nvidia.com/gpu-{_SAMPLE // NODES % 8}"
        return text.replace(gpu, f"nvidia.com/gpu-{number // self._nodes % 8}")

    def _forget(self) -> None:
        status = {"kind": "Status", "code": 410, "message": "too old resource version"}
        for writer in self._watches:
            _chunk(writer, json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            writer.write(b"0\r\n\r\n")
        self._watches.clear()

    def _lease_answer(self, method: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if method == "GET" and self._lease is None:
            reply(writer, b'{"kind":"Status","message":"not found","code":404}', "404 Not Found")
            return
        if method != "GET":
            self._version += 1
            given = json.loads(body)
            spec = {**(self._lease or {"spec": {}})["spec"], **given["spec"]}
            annotations = {k: v for k, v in (given["metadata"].get("annotations") or {}).items() if v}
            version = str(self._version)
            self._lease = {
                "metadata": {"resourceVersion": version, "annotations": annotations},
                "spec": spec,
            }
        reply(writer, json.dumps(self._lease).encode())


def _waiting(pod: dict[str, Any]) -> dict[str, Any]:
    """The same pod, for which the scheduler has found no node."""
    del pod["spec"]["nodeName"]
    pod["metadata"]["annotations"]["clearml-injector/injected"] = "default@bench"
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}
    return pod


def reply(writer: asyncio.StreamWriter, content: bytes, status: str = "200 OK") -> None:
    """Answer a request."""
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def serve_until_killed(cluster: LargeCluster) -> None:
    """Print the port and serve."""
    server = await asyncio.start_server(cluster.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await cluster.change()


if __name__ == "__main__":
    uvloop.run(serve_until_killed(LargeCluster(*map(int, sys.argv[1:4]))))
