"""`make cluster REAL=1`: two real nodes with the product's image on them, for a person, until Ctrl-C."""

import json
from pathlib import Path

from testbed import image
from testbed.building import say
from testbed.nodes import parts, sandbox
from testbed.nodes.agent import chart_values
from testbed.nodes.cluster import RealCluster
from testbed.nodes.node import SOCKET, Equipment
from testbed.nodes.stub_images import LIMITER, WORKLOAD
from testbed.nvidia import parts as nvidia_parts
from testbed.nvidia.cards import Card
from testbed.playground import INSTALL, pause, until_interrupted
from testbed.registration import labelled_pod

GPUS = [
    Card("GPU-00000000-0000"),
    Card("GPU-11111111-1111", "NVIDIA A100-SXM4-80GB", minor=1, memory_mib=81920),
]
VALUES = {
    **chart_values(SOCKET),
    "image": {"repository": image.IMAGE.partition(":")[0], "tag": image.IMAGE.partition(":")[2]},
    "limiters": {"hami-core": {"extends": "hami-core", "initContainer": {"image": LIMITER}}},
}
POD = labelled_pod("half", "0.500")
POD["spec"]["containers"][0] |= {"image": WORKLOAD, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
WELCOME = """
Two nodes are up, each with kubelet, containerd, and two GPUs of 40 and of 80 GB that a file makes up for
the node agent; both have the image of this checkout. In another terminal, in this folder:

  export KUBECONFIG={kubeconfig} PATH={binaries}:$PATH VALUES={values}
  {install}
  kubectl --namespace gpu-fraction-injector get pods --output wide

and when those are ready, the agents on both nodes too:

  kubectl get gpunodes
  kubectl apply --filename {pod}
  kubectl exec half -- sh -c 'env; ls /dev/nvidia*; mount | grep vgpu'
  kubectl --namespace gpu-fraction-injector exec deployment/fraction-injector-controller -- \\
    fraction-injector ledger

Logs of kubelets, containerd and the control plane: {logs}
Ctrl-C takes it all down."""


def main() -> None:
    """Build what is missing, run the nodes until SIGINT or SIGTERM, and leave nothing behind."""
    if reason := parts.why_not() or nvidia_parts.why_not() or sandbox.why_not() or image.why_not():
        raise SystemExit(reason)
    until_interrupted(_run)


def _run(built: Path) -> None:
    node_parts = parts.build(say)
    nvidia_parts.build(say)
    say("nodes: building the image of this checkout, where it has changed ...")
    archive = image.archive()
    has = Equipment(GPUS, agent_from_chart=True)
    with RealCluster(built, node_parts, archives=[archive], each=has) as cluster:
        folder = cluster.home.folder
        values, pod = folder / "values.json", folder / "pod.json"
        values.write_text(json.dumps(VALUES))
        pod.write_text(json.dumps(POD))
        names = {"kubeconfig": cluster.kubeconfig, "binaries": built, "values": values}
        say(WELCOME.format(**names, install=INSTALL, pod=pod, logs=folder))
        pause()


if __name__ == "__main__":
    main()
