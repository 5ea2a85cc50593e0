"""Run with `python -m bench.api_server`: how long a real API server takes to create a pod, webhook or not.

The pod is ClearML's. In one namespace the webhook decides on it and asks a controller, as they run in a
cluster; the product's namespaceSelector leaves the other namespace out, so that the API server stores the
same pod without a question. A third pod has no label, and the product's match condition passes it by. No
scheduler looks at any of them. API server, etcd and what belongs to them have one core; webhook, controller
and client, of which one waits for the other, share the second one. Before that, webhook and controller are
left alone for a while.
"""

from __future__ import annotations

import copy
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
import yaml

from bench.bodies import FIXTURES
from bench.cluster import REAL_LEASE, at_rest, built
from bench.harness import Bar, Figure, interleave, report
from bench.machine import LOADING_CORE, MEASURED_CORE, Watch, pin
from bench.processes import Server, asking_webhook, metrics, total
from bench.webhook_with_controller import placed_alone
from testbed.cluster import Cluster
from testbed.components import ADMIN_TOKEN
from testbed.controller_process import Controller, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import UNDER_TEST
from testbed.product import INJECTED, decides
from testbed.registration import LABEL, OWN_NAMESPACE, configuration, registered

NODES, GPUS_PER_NODE = 8, 8
NAMESPACE = "bench"
CALLED, LEFT_OUT, UNLABELLED = "labelled, webhook called", "the same, namespace left out", "no label"
WARM_UP = 20
WAITS = "apiserver_admission_webhook_admission_duration_seconds", "fraction_injector_review_seconds"


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod that is created over and over, and where."""

    namespace: str
    labelled: bool

    @property
    def is_decided(self) -> bool:
        """Whether the webhook is called for it."""
        return self.labelled and self.namespace == NAMESPACE

    def body(self, name: str) -> bytes:
        """The pod under a name, as compact JSON."""
        pod: dict[str, Any] = copy.deepcopy(_POD)
        if not self.labelled:
            del pod["metadata"]["labels"][LABEL]
        text = json.dumps(pod, separators=(",", ":"))
        return text.replace(pod["metadata"]["name"], name).encode()


_POD = yaml.safe_load((FIXTURES / "manifests" / "clearml-label-only.yaml").read_text())
_POD["spec"]["schedulerName"] = "nobody"

SUBJECTS = {
    CALLED: Subject(NAMESPACE, labelled=True),
    LEFT_OUT: Subject(OWN_NAMESPACE, labelled=True),
    UNLABELLED: Subject(NAMESPACE, labelled=False),
}


def main(
    *,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 5,
    pods: Annotated[int, typer.Option(help="Pods of each kind in a round, one after the other.")] = 300,
    idle: Annotated[float, typer.Option(help="Seconds to watch webhook and controller at rest.")] = 30,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure creations with and without the webhook, and both processes at rest."""
    watch, folder_of_binaries = Watch(), built()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        pin(LOADING_CORE)
        cluster = stack.enter_context(Cluster(folder_of_binaries, folder))
        pin(MEASURED_CORE)
        tls = _fill(cluster, folder)
        controller = Controller(cluster.kubeconfig, folder, tls, "bench", more=REAL_LEASE)
        stack.enter_context(controller)
        controller.until_leading()
        webhook = stack.enter_context(asking_webhook(tls, controller.url))
        figures = _resting(controller, webhook, idle)
        stack.enter_context(_registered(cluster, webhook, tls))
        client = stack.enter_context(_client(cluster))
        figures += _creations(client, lambda: metrics(webhook, tls), rounds, pods)
        alone = placed_alone(webhook, tls)
        figures.append(Figure("placed without the controller", "", [alone], bar=Bar("<=", 0)))
    report("api-server", figures, watch, json_file, kubernetes=UNDER_TEST.version)


def _registered(cluster: Cluster, webhook: Server, tls: Path) -> AbstractContextManager[None]:
    url = f"https://localhost:{webhook.port}/mutate"
    config = configuration("fractions", url, (tls / "ca.crt").read_bytes())
    return registered(cluster.api, config, NAMESPACE, decides)


def _fill(cluster: Cluster, folder: Path) -> Path:
    """Add CRD, namespaces and nodes; give the folder of a certificate for webhook and controller."""
    install_crd(cluster.api)
    for namespace in (NAMESPACE, OWN_NAMESPACE):
        cluster.create_namespace(namespace)
    for number in range(NODES):
        cluster.api.create(GpuNode(gpus=GPUS_PER_NODE).manifest(f"node-{number}"))
    return write_tls(folder / "tls")


def _resting(controller: Controller, webhook: Server, idle: float) -> list[Figure]:
    process = Server(controller.process.pid, controller.ports[0])
    shares = at_rest([webhook, process], idle)
    figures = []
    for name, server, share in zip(("webhook", "controller"), (webhook, process), shares, strict=True):
        what = f"{name} at rest, {NODES} nodes"
        figures += [
            Figure(f"{what}: CPU", "% of a core", [100 * share]),
            Figure(f"{what}: RSS", "MB", [server.rss_mb]),
        ]
    return figures


class Client:
    """One connection to the API server, kept alive, as its administrator.

    Args:
        connection: To the API server; opened with the first request.
    """

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection
        self._created = 0

    def create(self, subject: Subject, count: int) -> list[float]:
        """Milliseconds of each of so many creations; each pod is deleted before the next one comes."""
        return [self._create(subject) for _ in range(count)]

    def metrics(self) -> str:
        """What the API server counted."""
        return self._ask("GET", "/metrics").decode()

    def _create(self, subject: Subject) -> float:
        self._created += 1
        name = f"clearml-id-{self._created:032x}"
        path, body = f"/api/v1/namespaces/{subject.namespace}/pods", subject.body(name)
        start = time.perf_counter()
        answer = self._ask("POST", path, body)
        taken = time.perf_counter() - start
        assert (INJECTED.encode() in answer) == subject.is_decided, answer
        self._ask("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
        return 1000 * taken

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status not in (http.client.OK, http.client.CREATED):
            raise RuntimeError(f"{method} {path}: {answer.status} {content.decode()}")
        return content


@contextmanager
def _client(cluster: Cluster) -> Iterator[Client]:
    context = ssl.create_default_context(cafile=str(cluster.home.ca_file))
    url = urlsplit(cluster.url)
    assert url.hostname is not None
    connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)
    try:
        yield Client(connection)
    finally:
        connection.close()


def _creations(client: Client, counted: Callable[[], str], rounds: int, pods: int) -> list[Figure]:
    """Creations in rounds, and where the time for the webhook went; `counted` gives the webhook's metrics."""
    for subject in SUBJECTS.values():
        client.create(subject, min(pods, WARM_UP))
    before = client.metrics(), counted()
    subjects = {name: partial(client.create, subject, pods) for name, subject in SUBJECTS.items()}
    measured = interleave(subjects, rounds)
    after = client.metrics(), counted()
    whats = "mean wait of the API server for the webhook", "mean of a review in the webhook, asking included"
    return [
        *[_compared(name, measured, percentile) for percentile in (50, 99) for name in (CALLED, UNLABELLED)],
        _added(measured),
        *[
            Figure(what, "ms", [_mean(early, late, metric)])
            for what, early, late, metric in zip(whats, before, after, WAITS, strict=True)
        ],
    ]


def _mean(early: str, late: str, metric: str) -> float:
    """Milliseconds of what a histogram of seconds counted between two texts."""
    seconds, count = (total(late, metric + part) - total(early, metric + part) for part in ("_sum", "_count"))
    return 1000 * seconds / count


def _compared(name: str, measured: Mapping[str, Sequence[list[float]]], percentile: int) -> Figure:
    """One percentile of a subject compared with the pod whose namespace is left out, round by round."""
    values, references = (
        [_percentile(taken, percentile) for taken in measured[key]] for key in (name, LEFT_OUT)
    )
    return Figure(f"create p{percentile}: {name}", "ms", values, LEFT_OUT, references)


def _added(measured: Mapping[str, Sequence[list[float]]]) -> Figure:
    pairs = zip(measured[CALLED], measured[LEFT_OUT], strict=True)
    added = [_percentile(with_it, 50) - _percentile(without, 50) for with_it, without in pairs]
    count = sum(map(len, measured[CALLED]))
    note = f"{count} pods of each kind, one after the other over one connection kept alive"
    return Figure("added to the p50 by the webhook", "ms", added, note=note)


def _percentile(values: Sequence[float], percentile: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percentile - 1]


if __name__ == "__main__":
    typer.run(main)
