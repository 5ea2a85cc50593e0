"""A cluster of real nodes as one context manager: the control plane in one sandbox, each node in another."""

import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from kube.dra import DRIVER
from testbed import components
from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.components import ADMIN_TOKEN, Home
from testbed.gpu_nodes import GpuNode
from testbed.nodes import stub_images
from testbed.nodes.node import Equipment, Node, Place, start_proxy
from testbed.nodes.parts import Parts
from testbed.nodes.sandbox import Reaper, Sandbox
from testbed.process import Process, ProcessError, eventually, start_on_free_ports, tail

HERE = Path(__file__).parent
CONTROL_PLANE = "control-plane"
ADDRESS, PORT = "10.77.0.1", 6443
PROXY_TOKEN = "kube-proxy"  # noqa: S105 - of a throw-away API server in a sandbox
NAMES = (ADDRESS, "10.0.0.1", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
READY_S = 180
TWO_STAND_INS = Equipment()


@dataclass(frozen=True, slots=True)
class BoxedHome(Home):
    """The folders of a control plane that runs in a sandbox."""

    sandbox: Sandbox

    def start(self, program: str, *arguments: str, name: str = "") -> Process:
        """Start a program in the sandbox."""
        command = [str(self.binaries / program), *arguments]
        return self.sandbox.start(name or program, command, components.LESS_GARBAGE_COLLECTION)


class RealCluster(Cluster):
    """A control plane and nodes with containers, while the context is open. Nothing is left of it afterwards.

    Args:
        binaries: Folder of the control plane's, as `testbed.binaries.build` returned it.
        parts: Of the nodes.
        nodes: How many.
        archives: Images for every node, in addition to the stand-ins.
        each: What each node has.

    Attributes:
        nodes: The nodes by name.
    """

    def __init__(
        self,
        binaries: Path,
        parts: Parts,
        *,
        nodes: int = 2,
        archives: Sequence[Path] = (),
        each: Equipment = TWO_STAND_INS,
    ) -> None:
        # Not below a test's own folder: paths of sockets have at most 107 characters.
        folder = Path(tempfile.mkdtemp(prefix="gpu-nodes-"))
        folder.chmod(0o711)  # hooks run as other users in user namespaces
        super().__init__(binaries, folder)
        self._reaper = Reaper()
        self._reaper.keep("folder", folder)
        self._parts = parts
        self._archives = archives
        self._each = each
        self._control = Sandbox(CONTROL_PLANE, folder / CONTROL_PLANE, self._reaper)
        self._names = [f"gpu-node-{number}" for number in range(1, nodes + 1)]
        self.nodes: dict[str, Node] = {}

    def _start(self, stack: ExitStack) -> None:
        stack.callback(self._reaper.clean_up)
        stack.callback(self._control.halt)
        try:
            self._start_all(stack)
        except Exception as error:
            for log in self.logs():  # they are gone before anybody could look
                error.add_note(f"end of {log.name}:\n{tail(log, 12)}")
            raise

    def _start_all(self, stack: ExitStack) -> None:
        self._start_control_plane(stack)
        archives = [*stub_images.write(self._parts.busybox, self.home.folder), *self._archives]
        for number, name in enumerate(self._names, 1):
            node = self._node(name, number)
            self.nodes[name] = node
            stack.callback(node.sandbox.halt)
            self._boot(node)
            node.start_containerd()
        with ThreadPoolExecutor() as pool:
            # Imports alone: a process that is tied to us is killed when the thread that started it ends.
            list(pool.map(lambda node: node.import_images(archives), self.nodes.values()))
        for node in self.nodes.values():
            node.start_services()
        for name in self._names:
            ready = self._kubelet_is_ready if self._each.agent_from_chart else self.is_ready
            eventually(lambda name=name, ready=ready: ready(name), f"{name} is ready", READY_S)
            self.api.patch("Node", name, {"metadata": {"labels": self._labels(name)}})

    def _start_control_plane(self, stack: ExitStack) -> None:
        self._control.boot()
        self._control.check("ip", "link", "add", "nodes0", "type", "bridge")
        self._control.check("ip", "address", "add", f"{ADDRESS}/24", "dev", "nodes0")
        self._control.check("ip", "link", "set", "nodes0", "up")
        # Leads nowhere; Services are reached by addresses that some route must match.
        self._control.check("ip", "route", "add", "default", "via", "10.77.0.254", "dev", "nodes0")
        home = BoxedHome(self.home.binaries, self.home.folder, self._control)
        tokens = [f"{name},system:node:{name},{name},system:nodes" for name in self._names]
        components.make_keys(home, NAMES, [*tokens, f"{PROXY_TOKEN},system:kube-proxy,kube-proxy"])
        self._start_api(stack, home)
        inside = self._kubeconfig("admin-inside", ADMIN_TOKEN)
        self.processes += [
            components.start_controller_manager(home, inside),
            components.start_scheduler(home, inside),
            self._control.start("dns", [sys.executable, str(HERE / "dns.py"), ADDRESS, str(inside)]),
        ]
        self.api.create(_control_plane_node())
        self.processes.append(
            start_proxy(self._control, self._parts, CONTROL_PLANE, self._kubeconfig("proxy", PROXY_TOKEN))
        )
        eventually(lambda: self.takes_pods("default"), "the default namespace has its service account")

    def _start_api(self, stack: ExitStack, home: BoxedHome) -> None:
        self.etcd_url = "http://127.0.0.1:2379"
        etcd = home.start("etcd", f"--data-dir={home.folder / 'etcd'}", "--unsafe-no-fsync")
        common = components.apiserver_arguments(home, self.etcd_url, PORT)
        arguments = [
            *[argument for argument in common if not argument.startswith("--authorization-mode=")],
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
            "--endpoint-reconciler-type=lease",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
        ]
        apiserver = home.start("kube-apiserver", *arguments)
        self.processes += [etcd, apiserver]
        forward, self.url = self.port_forward(ADDRESS, PORT, self._api_ready)
        stack.callback(forward.stop)
        components.write_kubeconfig(home, self.url, self.kubeconfig)
        self.api = stack.enter_context(Api(self.url, str(home.ca_file), ADMIN_TOKEN))

    def _api_ready(self, ports: list[int]) -> bool:
        for process in self.processes:
            if process.exit_code is not None:
                raise ProcessError(f"{process.log.stem} ended with {process.exit_code}")
        with Api(f"https://127.0.0.1:{ports[0]}", str(self.home.ca_file), ADMIN_TOKEN) as api:
            return api.ready()

    def port_forward(
        self, address: str, port: int, ready: Callable[[list[int]], object] = lambda ports: _listens(ports[0])
    ) -> tuple[Process, str]:
        """A port of this machine's loopback device that leads to an address in the cluster, and its URL."""

        def start(ports: list[int]) -> Process:
            command = [sys.executable, str(HERE / "port_forward.py"), str(ports[0]), str(self._control.pid)]
            return Process([*command, address, str(port)], self.home.folder / f"port-forward-{ports[0]}.log")

        process, [chosen] = start_on_free_ports(1, start, ready, READY_S)
        return process, f"https://127.0.0.1:{chosen}"

    def _kubeconfig(self, name: str, token: str) -> Path:
        file = self.home.folder / f"{name}.kubeconfig"
        components.write_kubeconfig(self.home, f"https://{ADDRESS}:{PORT}", file, token)
        return file

    def _node(self, name: str, number: int) -> Node:
        place = Place(
            name=name,
            number=number,
            kubeconfig=self._kubeconfig(name, name),
            proxy_kubeconfig=self.home.folder / "proxy.kubeconfig",
            dns=ADDRESS,
            has=self._each,
        )
        return Node(Sandbox(name, self.home.folder / f"n{number}", self._reaper), self._parts, place)

    def _boot(self, node: Node) -> None:
        """Boot a node's sandbox and wire it to the control plane's."""
        node.sandbox.boot()
        wire, place = f"node{node.place.number}", node.place
        self._control.on_network("ip", "link", "delete", wire)  # of its last life, where one was
        created = self._control.on_network(
            *f"ip link add {wire} type veth peer name eth0 netns {node.sandbox.pid}".split()
        )
        assert created.code == 0, created.stderr
        self._control.check("ip", "link", "set", wire, "master", "nodes0", "up")
        self._control.check("ip", "route", "replace", place.pods, "via", place.address)
        node.sandbox.check("ip", "address", "add", f"{place.address}/24", "dev", "eth0")
        node.sandbox.check("ip", "link", "set", "eth0", "up")
        node.sandbox.check("ip", "route", "add", "default", "via", ADDRESS)

    def reboot(self, name: str, *, agent: bool = True) -> None:
        """Pull a node's plug and start it again with the disk it had; wait until it is ready.

        Without its agent it is ready for all but slices, and nobody waits.
        """
        node = self.nodes[name]
        node.sandbox.halt()
        self._boot(node)
        node.start(agent=agent)
        if agent:
            eventually(lambda: self.is_ready(name), f"{name} is back", READY_S)

    def is_ready(self, name: str) -> bool:
        """Whether a node says so of itself and offers its GPUs."""
        if self._each.agent_by_dra:
            return self._kubelet_is_ready(name) and bool(self.dra_devices(name))
        allocatable = self._status(name).get("allocatable", {})
        offered = [allocatable.get(f"nvidia.com/gpu-{index}") for index in range(self._each.gpus)]
        return self._kubelet_is_ready(name) and offered == ["8"] * self._each.gpus

    def dra_devices(self, name: str, driver: str = DRIVER) -> dict[str, Object]:
        """The devices that a DRA driver of a node offers, the agent if none is named, by their names."""
        slices = self.api.list("ResourceSlice", api="resource.k8s.io/v1")
        specs = [each["spec"] for each in slices if each["spec"].get("nodeName") == name]
        ours = [each for each in specs if each["driver"] == driver]
        return {device["name"]: device for each in ours for device in each["devices"]}

    def _kubelet_is_ready(self, name: str) -> bool:
        conditions = self._status(name).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _status(self, name: str) -> Object:
        found = [node for node in self.api.list("Node") if node["metadata"]["name"] == name]
        return found[0]["status"] if found else {}

    def _labels(self, name: str) -> Object:
        return dict(GpuNode(gpus=self._each.gpus).manifest(name)["metadata"]["labels"])

    def held_slices(self) -> dict[tuple[str, str, str], int]:
        """Slices by namespace, pod and resource as the kubelets have them: what a ledger must equal."""
        return {key: count for node in self.nodes.values() for key, count in node.held_slices().items()}

    def logs(self) -> list[Path]:
        """The log files of everything that ran."""
        return sorted([*self.home.folder.glob("*.log"), *self.home.folder.glob("*/*.log")])


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _control_plane_node() -> Object:
    """What kube-proxy on the control plane's machine looks itself up by; no kubelet runs there."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": CONTROL_PLANE},
        "spec": {"unschedulable": True},
        "status": {"addresses": [{"type": "InternalIP", "address": ADDRESS}]},
    }
