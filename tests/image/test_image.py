"""What is in the image, and that it runs with nothing but what a restricted pod has."""

import json
import re
from pathlib import Path

import httpx
import pytest

from testbed import plain_http
from testbed.controller_process import client_context, write_tls
from testbed.process import Process, eventually, start_on_free_ports
from tests.image.stub_api_server import StubApiServer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIXTURES = HERE.parent / "fixtures" / "admission-reviews"
APP = "/opt/fraction-injector"
MIB = 1024 * 1024
READY_S = 60


@pytest.fixture
def tls(tmp_path):
    return write_tls(tmp_path / "tls")


@pytest.fixture
def start(image, tls, tmp_path):
    """Start the image's entry point: on a read-only root, as its user, with the image's environment.

    Container runtimes add HOME, for a user without a home the root.
    """
    script = [
        "/usr/bin/unshare",
        "--mount",
        "--propagation=private",
        "/bin/sh",
        str(HERE / "run_read_only.sh"),
    ]
    started = []

    def run(*arguments, log="image"):
        inside = [
            "--chdir",
            image.config["WorkingDir"],
            "HOME=/",
            *image.config["Env"],
            *image.config["Entrypoint"],
        ]
        argv = [*script, str(image.root), str(tls), *inside, *arguments]
        process = Process(argv, tmp_path / f"{log}.log", grace_s=20)
        started.append(process)
        return process

    yield run
    for process in started:
        process.stop()


def test_it_runs_as_nobody_in_particular(image):
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["python3", "-m", "cli.main"]
    assert image.config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert image.config["Labels"]["org.opencontainers.image.revision"] == "0123abc"


def test_every_module_is_compiled_and_nothing_else_came_along(image):
    app = image.root / APP.lstrip("/")
    modules = list(app.rglob("*.py"))
    assert len(modules) > 100
    for module in modules:
        assert list((module.parent / "__pycache__").glob(f"{module.stem}.cpython-*.pyc")), module
    found = {path.name for path in app.iterdir()}
    assert found == {
        "LICENSE",
        "agent",
        "baremetal",
        "certs",
        "cli",
        "cluster",
        "controller",
        "describe",
        "doctor",
        "examples",
        "kube",
        "ledger",
        "modes",
        "policies",
        "requirements",
        "service",
        "web",
        "webhook",
    }
    assert not list((image.root / "opt/venv").rglob("pip"))
    assert not list((image.root / "opt").glob("uv*"))


def test_its_size(image, record_property, capsys):
    record_property("mib", image.bytes_added // MIB)
    with capsys.disabled():
        print(f"\nthe image adds {image.bytes_added // MIB} MiB to its base")  # noqa: T201 - asked for
    said = re.search(r"adds about (\d+) MiB", (ROOT / "docs" / "getting-started" / "install.md").read_text())
    assert said is not None
    assert abs(image.bytes_added // MIB - int(said[1])) <= 3


def test_the_webhook_serves_from_a_read_only_root(start, tls):
    def begin(ports):
        options = [f"--port={ports[0]}", f"--health-port={ports[1]}", "--tls-dir=/mnt", "--stop-delay=0"]
        more = [f"--policies={APP}/policies", f"--inventory={APP}/examples/demo/inventory.yaml"]
        return start("webhook", *options, *more)

    def ready(ports):
        try:
            return plain_http.get(f"http://127.0.0.1:{ports[1]}/readyz").is_success
        except httpx.TransportError:
            return False

    process, ports = start_on_free_ports(2, begin, ready, READY_S)
    status = Path(f"/proc/{process.pid}/status").read_text()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    statuses = [status, *(Path(f"/proc/{child}/status").read_text() for child in children)]
    assert any("Uid:\t65532\t65532\t65532\t65532" in text for text in statuses)
    review = (FIXTURES / "clearml-half.create.json").read_bytes()
    answer = httpx.post(
        f"https://127.0.0.1:{ports[0]}/mutate",
        content=review,
        headers={"Content-Type": "application/json"},
        verify=client_context(tls),
        trust_env=False,
        timeout=60,
    )
    assert json.loads(answer.content)["response"]["allowed"] is True


def test_the_controller_connects_to_an_api_server(start, tls):
    with StubApiServer() as api:
        (tls / "api-ca.crt").write_bytes(api.ca_pem)
        (tls / "kubeconfig").write_text(json.dumps(api.kubeconfig("/mnt/api-ca.crt")))
        process = start(
            "controller", "--kubeconfig=/mnt/kubeconfig", "--tls-dir=/mnt", "--port=0", "--health-port=0"
        )
        eventually(
            lambda: {"/api/v1/nodes", "/api/v1/pods"} <= api.paths(), "nodes and pods are listed", READY_S
        )
    assert process.exit_code is None
    assert {request.token for request in api.requests} == {"Bearer of-the-tests"}


COMMANDS = {
    "version": (["--version"], "0.1.0"),
    "explain": (
        [
            "explain",
            f"--policies={APP}/policies",
            f"--inventory={APP}/examples/demo/inventory.yaml",
            f"{APP}/examples/hami-core/pod.yaml",
        ],
        "nvidia.com/gpu-",
    ),
    "check": (["check", f"{APP}/policies"], "is fine"),
    "policy show": (["policy", "show", f"--policies={APP}/policies"], "hami-core"),
    "gpu-operator-values": (["gpu-operator-values", "--gpus=2"], "replicas"),
    "certs": (["certs", "status", "--help"], "--release"),
    "ledger": (["ledger", "--help"], "--watch"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_is_in_it(start, command, tmp_path):
    arguments, printed = command
    process = start(*arguments, log="command")
    eventually(lambda: process.exit_code is not None, "the command ends", READY_S)
    log = (tmp_path / "command.log").read_text()
    assert process.exit_code == 0, log
    assert printed in log


@pytest.mark.parametrize("subcommand", ["webhook", "controller"])
def test_both_processes_are_in_it(start, subcommand, tmp_path):
    process = start(subcommand, "--help", log=subcommand)
    eventually(lambda: process.exit_code is not None, "the help is printed", READY_S)
    assert process.exit_code == 0
    assert "--tls-dir" in (tmp_path / f"{subcommand}.log").read_text()
