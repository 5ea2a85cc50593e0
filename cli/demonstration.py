"""What the demo does: the real webhook over HTTPS, with pods of ClearML's agent."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonpatch

from cli.explainer import patch_of, review_of
from cli.ledger_table import lines
from cli.manifests import read_objects
from cli.options import DEMO, DEMO_INVENTORY, fail, read_ledger, read_policies
from cli.printing import say, say_drawn, shortened, table
from kube.names import ASKING_LABELS
from ledger.from_kubernetes import pod_from_object
from service.options import DEFAULT_POLICIES, PACKAGES
from webhook.admission.annotations import GPU_CONTAINER, MEMORY_MIB

DEMO_PODS = DEMO / "pods.yaml"
HEADINGS = ("POD", "LABEL", "DECISION", "NODE", "GPU RESOURCE", "MIB")
MAX_NAME = 20
COMMAND = "fraction-injector"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """One pod of the demo and its decision."""

    pod: dict[str, Any]
    """The pod as it would be stored."""
    patch: list[dict[str, Any]]
    denial: str | None

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])


def run_demo(port: int, *, serve: bool) -> None:
    """Send the demo's pods to a webhook, and print what becomes of them; `serve` keeps it running."""
    # A signal ends the webhook too, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder, _webhook(Path(folder) / "ca.pem", port) as started:
        process, ports = started
        ca_file = Path(folder) / "ca.pem"
        url = f"https://localhost:{ports['port']}/mutate"
        say(f"The webhook answers on {url}, with a CA of its own.\n")
        _show(_send_all(url, ca_file), serve=serve)
        if serve:
            review_file = Path(folder) / "review.json"
            review_file.write_text(json.dumps(review_of(read_objects(DEMO_PODS)[0])))
            with contextlib.suppress(KeyboardInterrupt):
                say(
                    f"The same GPUs as a page:  http://localhost:{ports['page_port']}/\n\n"
                    "The webhook stays up until Ctrl-C. From another terminal:\n\n"
                    f"  curl --cacert {ca_file} -H 'content-type: application/json' \\\n"
                    f"    --data @{review_file} {url}\n"
                )
                sys.stdout.flush()
                _until_ended(process)


@contextlib.contextmanager
def _webhook(ca_file: Path, port: int) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, int]]]:
    """Run a webhook with an inventory; gives it and its ports."""
    command = [sys.executable, "-m", "cli.main", "webhook", "--self-signed", "--stop-delay=0"]
    command += ["--page-port=0", f"--port={port}", f"--ca-file={ca_file}", f"--inventory={DEMO_INVENTORY}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=PACKAGES)  # noqa: S603 our own command
    try:
        yield process, _ports(process)
    finally:
        with process:
            process.send_signal(signal.SIGTERM)
            _until_ended(process)


def _until_ended(process: subprocess.Popen[bytes]) -> None:
    """Read what a process writes, so that it never waits for a reader, until it ends; may be called again."""
    for _ in process.stderr or ():
        pass
    process.wait()


def _ports(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Wait until the webhook serves, and return its ports."""
    lines = []
    for line in process.stderr or ():
        lines.append(line.decode())
        event = json.loads(line) if line.startswith(b"{") else {}
        if event.get("event") == "serving":
            return {"port": event["port"], "page_port": event["page_port"]}
    return fail("the webhook did not start:\n" + "".join(lines))


def _send_all(url: str, ca_file: Path) -> list[DemoResult]:
    trust = ssl.create_default_context(cafile=str(ca_file))
    with httpx.Client(verify=trust, trust_env=False) as client:
        return [_send(client, url, pod, uid) for uid, pod in enumerate(read_objects(DEMO_PODS), start=1)]


def _send(client: httpx.Client, url: str, pod: dict[str, Any], number: int) -> DemoResult:
    review = review_of(pod, uid=f"demo-{number}", dry_run=False)
    reply = client.post(url, json=review).raise_for_status().json()
    stored, patch = review["request"]["object"], patch_of(reply)
    if not reply["response"]["allowed"]:
        return DemoResult(stored, [], reply["response"]["status"]["message"])
    return DemoResult(jsonpatch.apply_patch(stored, patch), patch, None)


def _show(answers: list[DemoResult], *, serve: bool) -> None:
    policies = read_policies(DEFAULT_POLICIES)
    ledger = read_ledger(policies, DEMO_INVENTORY)
    injected = [pod_from_object(answer.pod, policies.resource_names) for answer in answers if answer.patch]
    for pod in injected:
        ledger.set_pod(pod)
    nodes = {pod.name: pod.promised_node or "any" for pod in injected}
    say(table([HEADINGS, *[_cells(answer, nodes.get(answer.name, "")) for answer in answers]]))
    say("\nWho holds which slices of which GPU\n")
    say_drawn("\n".join([*lines(ledger.view()), ""]))
    for answer in answers:
        if answer.denial is not None:
            say(f"denied     {answer.name}: {answer.denial}")
        elif not answer.patch:
            say(f"untouched  {answer.name}: it has no label, so nothing was changed")
    # By its path where a shell does not find it.
    is_unknown = Path(sys.argv[0]).name == COMMAND and shutil.which(COMMAND) is None
    typed = sys.argv[0] if is_unknown else COMMAND
    page = f"  see the GPUs as a page, and send reviews of your own:  {typed} demo --serve\n"
    say(
        "\nNext\n"
        f"  every change:  {typed} explain --together --diff {os.path.relpath(DEMO_PODS)}\n"
        f"{page if not serve else ''}"
        f"  your nodes, your policies:  {typed} webhook --help\n"
    )


def _cells(answer: DemoResult, node: str) -> tuple[str, ...]:
    metadata = answer.pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    label = next((str(labels[name]) for name in ASKING_LABELS if name in labels), "-")
    named = shortened(answer.name, MAX_NAME), shortened(label, MAX_NAME)
    if answer.denial is not None or not answer.patch:
        return (*named, "untouched" if answer.denial is None else "denied", "", "", "")
    container = annotations.get(GPU_CONTAINER, "")
    [limits] = [
        each["resources"]["limits"] for each in answer.pod["spec"]["containers"] if each["name"] == container
    ]
    resources = ", ".join(f"{name}: {amount}" for name, amount in limits.items() if "gpu" in name)
    return (*named, "injected", node, resources, annotations.get(MEMORY_MIB, "-"))
