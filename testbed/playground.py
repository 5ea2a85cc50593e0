"""`make cluster`: the tests' control plane for a person, with eight fake GPU nodes, until Ctrl-C."""

import json
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from testbed import binaries
from testbed.building import say
from testbed.certificate_files import write_tls
from testbed.chart import elsewhere
from testbed.cluster import Cluster
from testbed.controller_process import Controller, asking_webhook, install_crd
from testbed.gpu_nodes import GpuNode
from testbed.product import COMMAND, POLICIES
from testbed.registration import OWN_NAMESPACE

NODES = (
    *[GpuNode(gpus=8, memory_mib=81559, product="NVIDIA-H100-80GB-HBM3")] * 2,
    *[GpuNode(gpus=4, memory_mib=81920, product="NVIDIA-A100-SXM4-80GB")] * 2,
    *[GpuNode(gpus=4, memory_mib=40960, product="NVIDIA-A100-SXM4-40GB")] * 2,
    GpuNode(gpus=2, memory_mib=46068, product="NVIDIA-L40S"),
    GpuNode(gpus=1, memory_mib=23028, product="NVIDIA-A10"),
)

POD = POLICIES.parent / "examples" / "hami-core" / "pod.yaml"
INSTALL = (
    "helm install fraction-injector charts/fraction-injector"
    " --namespace gpu-fraction-injector --create-namespace --values $VALUES"
)
WELCOME = """
The cluster is up: eight nodes of fake GPUs, pods that run until they are deleted, the webhook and
controller of this checkout. In another terminal, in this folder, install the chart for that webhook:

  export KUBECONFIG={kubeconfig} PATH={binaries}:$PATH VALUES={values}
  {install}

and see what becomes of labelled pods:

  kubectl get nodes -L nvidia.com/gpu.count,nvidia.com/gpu.memory,nvidia.com/gpu.product
  kubectl apply -f {pod}
  kubectl get pods -o wide
  kubectl get gpuledgers
  {command} ledger --watch

The ledger as a page: {page}
Logs: {logs}
Ctrl-C takes it all down."""


def main() -> None:
    """Build what is missing, run the cluster until SIGINT or SIGTERM, and leave nothing behind."""
    until_interrupted(_run)


def until_interrupted(run: Callable[[Path], None]) -> None:
    """Build what is missing and call `run` with it; SIGINT and SIGTERM end it in good order."""
    if reason := binaries.go_missing():
        raise SystemExit(reason)
    # SIGINT too: a shell starts background jobs with it ignored.
    _on_signals(_interrupt)
    try:
        run(binaries.build(say))
    except KeyboardInterrupt:
        say("taken down")


def _run(built: Path) -> None:
    temporary = tempfile.TemporaryDirectory(prefix="gpu-fraction-")
    with temporary as folder, Cluster(built, Path(folder)) as cluster:
        for number, node in enumerate(NODES):
            cluster.api.create(node.manifest(f"gpu-{number}"))
        controller_folder, webhook_folder = Path(folder, "controller"), Path(folder, "webhook")
        for made in (controller_folder, webhook_folder):
            made.mkdir()
        install_crd(cluster.api)
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}})
        # The Lease of the chart's installation, so that doctor finds who leads.
        lease, tls = "fraction-injector-controller", write_tls(controller_folder / "tls")
        more = [f"--namespace={OWN_NAMESPACE}", "--page", "--page-port=0"]
        with Controller(cluster.kubeconfig, controller_folder, tls, lease, more=more) as controller:
            controller.until_leading()
            with asking_webhook(controller.url, controller.tls, webhook_folder) as webhook:
                values = Path(folder, "values.json")
                values.write_text(json.dumps(elsewhere(webhook), indent=1))
                names = {"kubeconfig": cluster.kubeconfig, "binaries": built, "values": values}
                names |= {"install": INSTALL, "pod": POD, "command": COMMAND, "page": controller.page}
                say(WELCOME.format(**names, logs=folder))
                pause()


def pause() -> None:
    """Wait for SIGINT or SIGTERM."""
    try:
        signal.pause()
    finally:
        # A second, impatient Ctrl-C must not cut the taking down short.
        _on_signals(signal.SIG_IGN)


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGTERM, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
