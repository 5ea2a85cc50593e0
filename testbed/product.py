"""The product as its users run it: the webhook's process."""

import re
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from testbed.admission_server import Answer
from testbed.api import ApiError
from testbed.certificate_files import write_tls
from testbed.process import WAIT_S, Process, Stoppable, start_on_free_ports
from testbed.registration import Outcome

COMMAND = str(Path(sys.executable).with_name("fraction-injector"))
POLICIES = Path(__file__).parents[1] / "policies"
INJECTED = "clearml-injector/injected"
READY_S = 180
GRACE_S = 30


@dataclass(frozen=True, slots=True)
class Setup:
    """What the webhook and `explain` are both given.

    Attributes:
        policies: Directory of policy files.
        inventory: File of Node documents.
        controller: URL of the API of the controller that a webhook asks in place of an inventory.
    """

    policies: Path
    inventory: Path | None = None
    controller: str = ""

    @property
    def options(self) -> list[str]:
        """As command line options."""
        knows = f"--controller={self.controller}" if self.controller else f"--inventory={self.inventory}"
        return [f"--policies={self.policies}", knows]


class Webhook(Stoppable):
    """A webhook process that is ready.

    Args:
        setup: What it decides by.
        folder: For its log.
        certificate: `--self-signed --ca-file`, or `--tls-dir` of an existing one.
        ca_file: The CA that it can be reached with.
    """

    def __init__(self, setup: Setup, folder: Path, certificate: Sequence[str], ca_file: Path) -> None:
        self.setup = setup
        self._log = folder / "webhook.log"
        self._certificate = certificate
        self._ca_file = ca_file
        self._process, [self._port] = start_on_free_ports(1, self._start, self._ready, READY_S)

    def _start(self, ports: list[int]) -> Process:
        arguments = [f"--port={ports[0]}", "--stop-delay=0", *self.setup.options, *self._certificate]
        return Process([COMMAND, "webhook", *arguments], self._log, grace_s=GRACE_S)

    def _ready(self, ports: list[int]) -> bool:
        if not self._ca_file.exists():
            return False
        try:
            answer = httpx.get(
                f"https://127.0.0.1:{ports[0]}/readyz", verify=self._trust(), trust_env=False, timeout=WAIT_S
            )
        except httpx.TransportError:
            return False
        return answer.is_success

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._ca_file))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def url(self) -> str:
        """For clientConfig.url."""
        return f"https://127.0.0.1:{self._port}/mutate"

    def figure(self, metric: str) -> float:
        """Return the value of a metric without labels.

        Raises:
            AssertionError: It is not there.
        """
        address = f"https://127.0.0.1:{self._port}/metrics"
        text = httpx.get(address, verify=self._trust(), trust_env=False, timeout=WAIT_S).text
        found = re.search(rf"^{metric} (\S+)", text, re.MULTILINE)
        assert found is not None, f"{metric} is not among the webhook's metrics"
        return float(found[1])

    @property
    def ca_pem(self) -> bytes:
        """For clientConfig.caBundle."""
        return self._ca_file.read_bytes()

    @contextmanager
    def relay(self) -> Iterator[Answer]:
        """A function that asks this webhook, for an AdmissionServer that records on the way."""
        headers = {"Content-Type": "application/json"}
        with httpx.Client(verify=self._trust(), headers=headers, trust_env=False, timeout=WAIT_S) as client:
            yield lambda body: client.post(self.url, content=body).raise_for_status().content

    def stop(self) -> None:
        """End it with SIGTERM."""
        self._process.stop()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()

    def start_again(self) -> None:
        """Start it on the port that it had."""
        self._process = self._start([self._port])
        self._process.until_ready(lambda: self._ready([self._port]), READY_S)


def self_signed(setup: Setup, folder: Path) -> Webhook:
    """Start a webhook that makes its own certificate."""
    ca_file = folder / "ca.pem"
    return Webhook(setup, folder, ["--self-signed", f"--ca-file={ca_file}"], ca_file)


def mounted(setup: Setup, folder: Path) -> Webhook:
    """Start a webhook with a certificate from a directory, which stays the same when it starts again."""
    directory = write_tls(folder / "tls")
    return Webhook(setup, folder, [f"--tls-dir={directory}"], directory / "ca.crt")


def decides(outcome: Outcome) -> bool:
    """Whether the product's webhook has decided on a probe."""
    if isinstance(outcome, ApiError):
        return "denied the request" in str(outcome)
    return INJECTED in outcome["metadata"].get("annotations", {})


def passes_by(outcome: Outcome) -> bool:
    """Whether a probe came past the product's webhook: as it was sent, or as far as the second lock.

    A busy API server that could not call the webhook tells nothing.
    """
    if isinstance(outcome, ApiError):
        return "ValidatingAdmissionPolicy" in str(outcome)
    return not decides(outcome)
