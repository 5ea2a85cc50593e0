"""One node: a sandbox with containerd, kubelet, kube-proxy and a stand-in device plugin."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.components import LESS_GARBAGE_COLLECTION
from testbed.nodes.agent import OPERATORS_TOOLKIT, TOOLKIT, AgentOnNode
from testbed.nodes.layout import PLAIN, Layout
from testbed.nodes.parts import Parts
from testbed.nodes.sandbox import Sandbox
from testbed.nodes.stub_images import PAUSE
from testbed.nvidia.cards import Card
from testbed.process import Process

SOCKET = PLAIN.socket
RUNTIME_OF_TOOLKIT = "nvidia-container-runtime"
READY_S = 180
STAND_INS = 2
PODS = "10.88.0.0/16"


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a node has.

    Attributes:
        cards: GPUs that the product's agent offers; without any, a stand-in device plugin offers two.
        agent_from_chart: The chart runs that agent, so that a node is ready without offering anything.
        agent_by_dra: That agent offers the GPUs by DRA, as the node's own user.
        layout: Where it keeps its container runtime.
    """

    cards: Sequence[Card] = ()
    agent_from_chart: bool = False
    agent_by_dra: bool = False
    layout: Layout = PLAIN

    @property
    def gpus(self) -> int:
        """How many are offered."""
        return len(self.cards) or STAND_INS


@dataclass(frozen=True, slots=True)
class Place:
    """What a node knows of itself and of its cluster.

    Attributes:
        name: Of the node.
        number: From 1 up; decides the addresses.
        kubeconfig: Of the kubelet.
        proxy_kubeconfig: Of kube-proxy.
        dns: Address of the name server.
        has: Its GPUs and its container runtime.
    """

    name: str
    number: int
    kubeconfig: Path
    proxy_kubeconfig: Path
    dns: str
    has: Equipment

    @property
    def address(self) -> str:
        """Of the node."""
        return f"10.77.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """Block of its pods' addresses."""
        return f"10.88.{self.number}.0/24"


class Node:
    """A node in its sandbox. Its disk outlives a reboot: images, and what kubelet and network keep.

    Args:
        sandbox: Not booted yet.
        parts: What runs on it.
        place: Its name, addresses and cluster.

    Attributes:
        containerd: The running one.
        kubelet: The running one.
        device_plugin: The running one.
        agent: The product's, where it runs in place of the device plugin.
    """

    containerd: Process
    kubelet: Process
    proxy: Process
    device_plugin: Process
    agent: AgentOnNode

    def __init__(self, sandbox: Sandbox, parts: Parts, place: Place) -> None:
        self.sandbox = sandbox
        self.place = place
        self.parts = parts
        self._folder = sandbox.folder
        self._write_configurations()

    def _write_configurations(self) -> None:
        network = self._folder / "cni"
        network.mkdir()
        (network / "10-bridge.conflist").write_text(json.dumps(_network(self._folder, self.place)))
        (self._folder / "kubelet.json").write_text(json.dumps(_kubelet(self.place)))

    def start(self, *, agent: bool = True) -> None:
        """Start everything on a booted and wired sandbox that has its images, the agent if wanted."""
        self.start_containerd()
        self.start_services(agent=agent)

    def import_images(self, archives: Sequence[Path]) -> None:
        """Give a containerd that answers the images of archives."""
        for archive in archives:
            self.ctr("images", "import", str(archive))

    def start_services(self, *, agent: bool = True) -> None:
        """Start what needs containerd and its images: kubelet, device plugin or agent, proxy."""
        self.start_kubelet()
        if self.place.has.cards:
            if "agent" not in vars(self):  # its driver outlives a reboot, as the disk does
                socket, cards = self.place.has.layout.socket, self.place.has.cards
                self.agent = AgentOnNode(self.sandbox, socket, cards, self.parts.environment)
                if self.place.has.agent_by_dra:
                    self.agent.dra_of = self.place.name, self.place.kubeconfig
            self.agent.show_folder()
            if agent and not self.place.has.agent_from_chart:
                self.agent.start()
        else:
            self.start_device_plugin()
        self.proxy = start_proxy(self.sandbox, self.parts, self.place.name, self.place.proxy_kubeconfig)

    def start_device_plugin(self) -> None:
        """Start the stand-in device plugin."""
        self.device_plugin = self._run("deviceplugin", f"--gpus={self.place.has.gpus}")

    def start_containerd(self) -> None:
        """Start containerd and wait until it serves kubelets too, which end where it does not yet."""
        log = self._folder / "containerd.log"
        before = _boots(log)
        self.containerd = self._run("containerd", f"--config={self._write_containerd()}")
        self.containerd.until_ready(lambda: _boots(log) > before, READY_S)

    def _write_containerd(self) -> str:
        """Write containerd's configuration, as k3s does at each start, and return its path on the node."""
        layout, file = self.place.has.layout, self._folder / "containerd.toml"
        if layout.home:
            disk = self._folder / "home"
            file = disk / Path(layout.configuration).relative_to(layout.home)
            file.parent.mkdir(parents=True, exist_ok=True)
            if self.sandbox.run("test", "-e", layout.configuration).code != 0:
                self.sandbox.check("mkdir", "-p", layout.home)
                self.sandbox.check("mount", "--bind", str(disk), layout.home)
        # The folder of the toolkit is on the node's disk, and shown at its place a little later.
        found = (self._folder / TOOLKIT / RUNTIME_OF_TOOLKIT).exists()
        nvidia = f"{OPERATORS_TOOLKIT}/{RUNTIME_OF_TOOLKIT}" if found else None
        file.write_text(containerd_configuration(self._folder, self.parts, layout=layout, nvidia=nvidia))
        return layout.configuration or str(file)

    def start_kubelet(self) -> None:
        """Start the kubelet; it is ready when the API server says so."""
        self.kubelet = self._run(
            "kubelet",
            f"--config={self._folder / 'kubelet.json'}",
            f"--kubeconfig={self.place.kubeconfig}",
            f"--hostname-override={self.place.name}",
            f"--node-ip={self.place.address}",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
        )

    def _run(self, program: str, *arguments: str) -> Process:
        environment = {**self.parts.environment, **LESS_GARBAGE_COLLECTION}
        return self.sandbox.start(program, [program, *arguments], environment)

    def ctr(self, *arguments: str) -> str:
        """Run ctr among the pods' containers and return what it prints."""
        command = ["ctr", f"--address={self.place.has.layout.socket}", "--namespace=k8s.io", *arguments]
        return self.sandbox.check(*command, environment=self.parts.environment)

    def held_slices(self) -> dict[tuple[str, str, str], int]:
        """Slices by namespace, pod and resource, as the kubelet's own books have them."""
        printed = self.sandbox.check("deviceplugin", "pods", environment=self.parts.environment)
        held: dict[tuple[str, str, str], int] = {}
        for line in printed.splitlines():
            namespace, pod, resource, count = line.split()
            key = (namespace, pod, resource)
            held[key] = held.get(key, 0) + int(count)
        return held

    def restart_kubelet(self) -> None:
        """Stop the kubelet and start it, while pods run."""
        self.kubelet.stop()
        self.start_kubelet()

    def restart_containerd(self) -> None:
        """Kill containerd and start it, while pods run."""
        self.containerd.stop()
        self.start_containerd()


def start_proxy(sandbox: Sandbox, parts: Parts, node: str, kubeconfig: Path) -> Process:
    """Start kube-proxy in a sandbox, for a node's name."""
    arguments = [
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node}",
        "--proxy-mode=nftables",
        f"--cluster-cidr={PODS}",
        # The machine's own settings are not for a sandbox to change.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]
    return sandbox.start("kube-proxy", ["kube-proxy", *arguments], parts.environment)


def _network(folder: Path, place: Place) -> Mapping[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": place.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet(place: Place) -> Mapping[str, Any]:
    signals = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "address": place.address,
        "readOnlyPort": 0,
        "containerRuntimeEndpoint": f"unix://{place.has.layout.socket}",
        "clusterDomain": "cluster.local",
        "clusterDNS": [place.dns],
        # As sandboxes are: control groups without systemd, no swap of their own, no right to lower scores.
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "localStorageCapacityIsolation": False,
        # The machine's disk is no node's own to judge.
        "evictionHard": dict.fromkeys(signals, "0%"),
        "imageGCHighThresholdPercent": 100,
        # Else a container that fails waits 10 s, and then twice as long each time, up to minutes.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        "nodeStatusUpdateFrequency": "1s",
        # The default is as often as above, whether anything has changed or not: a patch a second and node.
        "nodeStatusReportFrequency": "5m",
    }


def _boots(log: Path) -> int:
    """How often containerd has said that all of it is ready."""
    return log.read_text(errors="replace").count("containerd successfully booted") if log.exists() else 0


def containerd_configuration(
    folder: Path, parts: Parts, *, cdi: bool = True, layout: Layout = PLAIN, nvidia: str | None = None
) -> str:
    """Return containerd's configuration; from 2.4 on it obeys CDI whatever is said here.

    Args:
        folder: Of the node.
        parts: Programs of the node.
        cdi: Whether CDI is on.
        layout: Where everything is.
        nvidia: Path of the toolkit's runtime, where the configuration has it only if it was found.
    """
    of_cdi = f"""
  enable_cdi = {"true" if cdi else "false"}
  cdi_spec_dirs = ["{folder}/cdi", "/var/run/cdi"]"""
    # That of NVIDIA's toolkit adds nothing to a container that no driver can serve.
    of_toolkit = nvidia if layout.finds_toolkit else str(parts.runc)
    return f"""version = 3
root = "{layout.root or folder / "containerd"}"
state = "{layout.state}"
oom_score = 0
[grpc]
  address = "{layout.socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without the right to lower the score of a process, every sandbox would fail.
  restrict_oom_score_adj = true
  disable_apparmor = true{of_cdi if layout.has_cdi_settings else ""}
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{parts.cni}"]
    conf_dir = "{folder}/cni"
{_runtime("runc", str(parts.runc))}
{_runtime("nvidia", of_toolkit) if of_toolkit is not None else ""}"""


def _runtime(name: str, program: str) -> str:
    table = f'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}'
    return f"""  [{table}]
    runtime_type = "io.containerd.runc.v2"
    [{table}.options]
      BinaryName = "{program}"
      SystemdCgroup = false
"""
