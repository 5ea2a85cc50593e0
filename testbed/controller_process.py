"""The controller as its users run it: processes with certificates from files, and the CRD it writes."""

import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import yaml

from kube.names import GPU_LEDGERS_PATH, GPU_NODES_PATH
from ledger.messages import StreamEvent
from ledger.view import LedgerView, NodeView, PendingView
from testbed import plain_http
from testbed.api import Api, ApiError, Object
from testbed.chart import RELEASE
from testbed.process import WAIT_S, Process, Stoppable, eventually, start_on_free_ports
from testbed.product import COMMAND, GRACE_S, POLICIES, READY_S, Setup, Webhook, decides
from testbed.registration import OWN_NAMESPACE, configuration, probe, registered

CRD = Path(__file__).parents[1] / "charts" / "fraction-injector" / "files" / "crds" / "gpuledgers.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEGRADED = "fraction_injector_degraded_placements_total"
"""The webhook's count of pods that it has placed without the controller."""
SHORT_LEASE = ("--lease-duration=6", "--renew-deadline=5", "--lease-retry=0.3")
"""Seconds; the real ones would make every change of leader cost a quarter of a minute."""


def client_context(tls: Path) -> ssl.SSLContext:
    """How a client of the API shows itself."""
    context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
    context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
    return context


def install_crd(api: Api) -> None:
    """Create the CRDs, or bring them up to date, and wait until they are served."""
    for file in sorted(CRD.parent.iterdir()):
        manifest = yaml.safe_load(file.read_text())
        name = manifest["metadata"]["name"]
        # As Helm marks what it made: a later installation of the chart takes it for its own.
        release = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": OWN_NAMESPACE}
        manifest["metadata"] |= {"annotations": release, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
        query = {"fieldManager": "test", "force": "true"}
        api.call("PATCH", f"{CRDS}/{name}", manifest, query, "application/apply-patch+yaml")

    def served() -> bool:
        try:
            api.call("GET", GPU_LEDGERS_PATH)
            api.call("GET", GPU_NODES_PATH)
        except (ApiError, ValueError):  # no JSON: nobody knows that path yet
            return False
        return True

    eventually(served, "GpuLedgers and GpuNodes are served")


def gpu_ledger(api: Api, node: str) -> Object | None:
    """The status of a node's GpuLedger; None while there is none."""
    try:
        found: Object | None = api.call("GET", f"{GPU_LEDGERS_PATH}/{node}").get("status")
    except ApiError as error:
        if error.code != httpx.codes.NOT_FOUND:
            raise
        return None
    return found


class Controller(Stoppable):
    """A controller process whose ledger is whole.

    Args:
        kubeconfig: Of the API server to follow.
        folder: For its log.
        tls: Directory of its certificate.
        lease: Name of the Lease that it stands for, in the default namespace.
        more: More options.
    """

    def __init__(  # noqa: PLR0913 - what differs between the tests
        self,
        kubeconfig: Path,
        folder: Path,
        tls: Path,
        lease: str,
        *,
        more: Sequence[str] = SHORT_LEASE,
        name: str = "controller",
    ) -> None:
        self._options = [f"--kubeconfig={kubeconfig}", f"--tls-dir={tls}", f"--lease={lease}"]
        self._options += [f"--policies={POLICIES}", *more]
        self.tls = tls
        self.log = folder / f"{name}.log"
        self._trust = client_context(tls)
        self.process, self.ports = start_on_free_ports(2, self._start, self._ready, READY_S)
        self.api = httpx.Client(base_url=self.url, verify=self._trust, trust_env=False, timeout=WAIT_S)

    def _start(self, ports: list[int]) -> Process:
        options = ["--namespace=default", f"--port={ports[0]}", f"--health-port={ports[1]}", "--stop-delay=0"]
        return Process([COMMAND, "controller", *options, *self._options], self.log, grace_s=GRACE_S)

    def _ready(self, ports: list[int]) -> bool:
        return plain_http.is_ready(ports[1])

    @property
    def url(self) -> str:
        """Of its API."""
        return f"https://127.0.0.1:{self.ports[0]}"

    @property
    def page(self) -> str:
        """Address of its page, as its log tells; for controllers with `--page`."""
        lines = [line for line in self.log.read_text().splitlines() if '"page_port"' in line]
        return f"http://localhost:{json.loads(lines[-1])['page_port']}/"

    def plain(self, path: str) -> str:
        """Text of its plain port."""
        return plain_http.get(f"http://127.0.0.1:{self.ports[1]}{path}").text

    @property
    def leads(self) -> bool:
        """Whether it says that it leads."""
        return "leading in term" in self.plain("/readyz")

    def until_leading(self) -> None:
        """Wait until it leads."""
        eventually(lambda: self.leads, "the controller leads")

    def ledger(self) -> LedgerView:
        """Its nodes with GPUs by name, and what waits: the beginning of its stream."""
        nodes, backlog = list[NodeView](), tuple[PendingView, ...]()
        with self.api.stream("GET", "/v1/ledger/stream") as answer:
            for line in answer.raise_for_status().iter_lines():
                if not line.startswith("data: "):
                    continue
                event = msgspec.json.decode(line.removeprefix("data: "), type=StreamEvent)
                if event.synced:
                    break
                nodes += [event.node.view] if event.node is not None else []
                backlog = backlog if event.backlog is None else event.backlog
        return LedgerView(tuple(sorted(nodes, key=lambda node: node.name)), backlog)

    def taken(self) -> dict[str, dict[int | None, int]]:
        """Slices taken of each GPU by node, free ones left out."""
        nodes = self.ledger().nodes
        taken = {node.name: {gpu.index: gpu.used for gpu in node.gpus if gpu.used} for node in nodes}
        return {name: gpus for name, gpus in taken.items() if gpus}

    def place(self, *asks: Any) -> httpx.Response:
        """Ask for placements, as the webhook does."""
        body = msgspec.json.encode({"asks": asks, "releases": ()})
        return self.api.post("/v1/placements", content=body)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()

    def stop(self) -> None:
        """End it with SIGTERM."""
        self.api.close()
        self.process.stop()

    def start_again(self) -> None:
        """Start it on the ports that it had, and wait until its ledger is whole."""
        self.process = self._start(self.ports)
        self.process.until_ready(lambda: self._ready(self.ports), READY_S)


def asking_webhook(controller: str, tls: Path, folder: Path, policies: Path = POLICIES) -> Webhook:
    """Start a webhook that asks a controller and shows the pair of `tls` to both sides."""
    setup = Setup(policies, controller=controller)
    return Webhook(setup, folder, [f"--tls-dir={tls}"], tls / "ca.crt")


@contextmanager
def registered_webhook(
    api: Api, namespace: str, controller: Controller, folder: Path, policies: Path = POLICIES
) -> Iterator[Webhook]:
    """A webhook that asks a controller, registered with the API server; its word is law in the namespace."""
    with asking_webhook(controller.url, controller.tls, folder, policies) as webhook:
        config = configuration("fractions", webhook.url, webhook.ca_pem)
        with registered(api, config, namespace, decides):
            eventually(lambda: is_placed_by_controller(api, namespace, webhook), "the controller places")
            yield webhook


def is_placed_by_controller(api: Api, namespace: str, webhook: Webhook) -> bool:
    """Whether a labelled pod is decided with the controller; the first that asks may come too late."""
    before = webhook.figure(DEGRADED)
    outcome = probe(api, namespace)
    if isinstance(outcome, ApiError):
        return "the controller" not in str(outcome)
    return webhook.figure(DEGRADED) == before
