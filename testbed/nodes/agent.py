"""The product's node agent on a node, in place of the stand-in device plugin, with NVIDIA's toolkit.

It runs as a process of the node, or as the chart's DaemonSet.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from testbed.nodes import limit_hook
from testbed.nodes.sandbox import Sandbox
from testbed.nvidia import library, parts
from testbed.nvidia.cards import LIMITS_OFFERED, LIMITS_UNKNOWN, Card, NvmlNode, Xid
from testbed.nvidia.driver_root import LIBRARIES, DriverRoot
from testbed.process import Process
from testbed.product import POLICIES

CHECKOUT = POLICIES.parent
LIMITS_BY_AGENT = """
kind: Policy
name: default
limits: {from: agent}
"""
POOL = LIMITS_BY_AGENT + "resources: {mode: pooled}\n"
LIBRARY_TEXT = "a stand-in for the limiter's library\n"
DRIVER, TOOLKIT = "driver", "toolkit"
CONTROLLERS = "/sys/fs/cgroup/cgroup.controllers"
"""By this file a machine with control groups of version 2 is known, which limits by the driver need."""
MEMORY = "/sys/fs/cgroup/memory"
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
SAME_EVERYWHERE = "/run/gpu-node"
"""Where each node's own folder is mounted, so that the pods of one DaemonSet find theirs."""
OPERATORS_DRIVER, OPERATORS_TOOLKIT = "/run/nvidia/driver", "/usr/local/nvidia/toolkit"
"""Where the GPU operator has them, and each node too."""
HOST_LIBRARIES, HOST_PROGRAMS = "/usr/lib/x86_64-linux-gnu", "/usr/bin"
"""Where packages put them."""


def chart_values(runtime_endpoint: str) -> Mapping[str, Any]:
    """Return values by which the chart runs the agent as a device plugin on nodes with made-up GPUs."""
    driver = f"{SAME_EVERYWHERE}/{DRIVER}"
    return {
        "agent": {
            "enabled": True,
            "offer": "device-plugin",
            "stateDir": f"{SAME_EVERYWHERE}/state",
            "cdiDirs": [f"{SAME_EVERYWHERE}/cdi"],
            "runtimeSocket": runtime_endpoint,
            "driverRoot": driver,
            "toolkitDir": f"{SAME_EVERYWHERE}/{TOOLKIT}",
            # What a container toolkit would do for a container with a driver.
            "extraEnv": [{"name": "LD_LIBRARY_PATH", "value": f"{driver}/{LIBRARIES}"}],
        },
        "policies": {"default": {"limits": {"from": "agent"}}},
    }


class AgentOnNode:
    """An agent, and what NVIDIA's GPU operator leaves on a node for it; and a limiter.

    The driver has a folder of its own, and the one CDI device on disk is that of all cards.

    Args:
        sandbox: Of the node.
        runtime_endpoint: Socket of its container runtime.
        cards: Of the node.
        environment: Of the node's programs.

    Attributes:
        divide: Cards that it offers in slices, from its next start on; all where none is named.
        dra_of: Node name and kubeconfig by which it offers its cards by DRA; None for a device plugin.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        runtime_endpoint: str,
        cards: Sequence[Card],
        environment: Mapping[str, str],
    ) -> None:
        self._sandbox = sandbox
        self._endpoint = runtime_endpoint
        self._environment = environment
        self._folder = sandbox.folder / "agent"
        self._process: Process | None = None
        self.divide: Sequence[str] = ()
        self.dra_of: tuple[str, Path] | None = None
        self._node = NvmlNode(tuple(cards))
        self._driver = DriverRoot(sandbox.folder / DRIVER, self._node)
        self._programs = parts.build(lambda line: None)
        (self._folder / "library").mkdir(parents=True, exist_ok=True)
        (self._folder / "library" / "libvgpu.so").write_text(LIBRARY_TEXT)
        (self._folder / "policies").mkdir(exist_ok=True)
        self.write_policy(LIMITS_BY_AGENT)
        self._install_toolkit()

    def write_policy(self, text: str) -> None:
        """Say by which policy it runs."""
        (self._folder / "policies" / "default.yaml").write_text(text)

    def write_gpus(self, cards: Sequence[Card], events: Sequence[Xid] = ()) -> None:
        """Say which GPUs there are, and what happened to them."""
        self._driver.write(replace(self._node, cards=tuple(cards), events=tuple(events)))

    def set_driver_limits(self, *, offered: bool) -> None:
        """Have a driver that can hold containers to GPU memory or cannot, from the agent's next start on."""
        self._node = replace(self._node, limits=LIMITS_OFFERED if offered else LIMITS_UNKNOWN)
        self._driver.write(self._node)
        self._sandbox.check(*(("touch",) if offered else ("rm", "-f")), CONTROLLERS)

    def driver_limits(self) -> list[Mapping[str, Any]]:
        """Return what the driver holds to GPU memory, by time: `group`, `uuid`, `mib`, `requested`.

        As with the real one, a control group that is gone is held to nothing.
        """
        file = self._folder / "limits"
        reported = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [
            each for each in reported if self._sandbox.run("test", "-d", f"{MEMORY}{each['group']}").code == 0
        ]

    def _install_toolkit(self) -> None:
        """Put NVIDIA's toolkit there but for what needs a driver that limits, which nobody has here."""
        self._toolkit.mkdir(exist_ok=True)
        shutil.copy(self._programs.ctk, self._toolkit)
        # In a user namespace a hook runs as a user who sees nothing of root's folders.
        shutil.copy(self._programs.folder / "nvidia-cdi-hook", f"{self._hook}.real")
        limit = shlex.join([sys.executable, "-S", limit_hook.__file__, str(self._folder / "limits")])
        self._hook.write_text(
            f"""#!/bin/sh
case "$1" in {limit_hook.NAME}) exec {limit} "$@";; *) exec {self._hook}.real "$@";; esac
"""
        )
        self._hook.chmod(0o755)
        cdi = self._sandbox.folder / "cdi"
        cdi.mkdir(exist_ok=True)
        self._programs.generate_management(
            self._driver, cdi / "management.nvidia.com-gpu.yaml", hook=self._hook
        )

    @property
    def _toolkit(self) -> Path:
        return self._sandbox.folder / TOOLKIT

    @property
    def _hook(self) -> Path:
        return self._toolkit / "nvidia-cdi-hook"

    def show_folder(self) -> None:
        """Mount driver, toolkit and folder where the node agent looks; to be done after each boot."""
        folder = self._sandbox.folder
        upper, work = folder / "usr" / "upper", folder / "usr" / "work"
        for made in (upper, work):
            made.mkdir(parents=True, exist_ok=True)
        # The machine's own /usr stays as it is.
        layers = f"lowerdir=/usr,upperdir={upper},workdir={work}"
        self._sandbox.check("mount", "-t", "overlay", "-o", layers, "overlay", "/usr")
        for source, place in (
            (folder, SAME_EVERYWHERE),
            (self._driver.folder, OPERATORS_DRIVER),
            (self._toolkit, OPERATORS_TOOLKIT),
        ):
            self._sandbox.check("mkdir", "-p", place)
            self._sandbox.check("mount", "--bind", str(source), place)

    def install_on_host(self) -> None:
        """Put driver and toolkit where a node of packages has them, too."""
        self._sandbox.check("cp", "-a", f"{self._driver.libraries}/.", HOST_LIBRARIES)
        self._sandbox.check("cp", "-a", f"{self._toolkit}/.", HOST_PROGRAMS)

    def upgrade_driver(self, version: str) -> None:
        """Put another version of the driver in place of the one before, whose files are gone."""
        self._node = replace(self._node, driver=version)
        self._driver.install(self._node)

    def discover_features(self) -> dict[str, str]:
        """Run NVIDIA's GPU feature discovery once, and return the labels that it writes."""
        file = self._folder / "features"
        once = "--oneshot", "--use-node-feature-api=false", "--no-timestamp", "--machine-type-file=/dev/null"
        where = f"--output-file={file}", f"--driver-root-ctr-path={self._driver.folder}"
        program = str(self._programs.folder / "gpu-feature-discovery")
        self._sandbox.check(program, *once, *where, environment=self._driver.environment)
        return dict(line.split("=", 1) for line in file.read_text().splitlines())

    def run_device_plugin(self) -> list[str]:
        """Return the command by which a pod with the node's root at /host runs NVIDIA's own device plugin."""
        libraries = f"{OPERATORS_DRIVER}/{LIBRARIES}"
        return [
            *("/bin/busybox", "chroot", "/host", "/usr/bin/env", f"LD_LIBRARY_PATH={libraries}"),
            str(self._programs.folder / "nvidia-device-plugin"),
            "--device-list-strategy=cdi-cri",
            f"--nvidia-driver-root={OPERATORS_DRIVER}",
            f"--driver-root-ctr-path={OPERATORS_DRIVER}",
            f"--nvidia-cdi-hook-path={OPERATORS_TOOLKIT}/nvidia-cdi-hook",
        ]

    def start(self) -> None:
        """Start it; it is ready when the kubelet counts its slices. The runtime must serve already."""
        runtime = self._folder / "runtime"
        asking = [sys.executable, "-m", "agent.ask_runtime", self._endpoint, str(runtime)]
        self._sandbox.check(*asking, environment={**self._environment, "PYTHONPATH": str(CHECKOUT)})
        options = [
            f"--policies={self._folder / 'policies'}",
            f"--state-dir={self._folder}",
            f"--cdi-dir={self._sandbox.folder / 'cdi'}",
            f"--runtime-file={runtime}",
            f"--nvidia-ctk={self._toolkit / 'nvidia-ctk'}",
            f"--nvidia-cdi-hook={self._hook}",
            f"--driver-root={self._driver.folder}",
            f"--host-driver-root={self._driver.folder}",
            "--driver-limits=true",
            *(f"--divide={card}" for card in self.divide),
        ]
        environment = {**self._environment, "PYTHONPATH": str(CHECKOUT), **self._driver.environment}
        if self.dra_of is not None:
            name, kubeconfig = self.dra_of
            options += ["--offer=dra", f"--node={name}"]
            environment |= self._give_account(json.loads(kubeconfig.read_text()))
        command = [sys.executable, "-m", "cli.main", "agent", *options]
        self._process = self._sandbox.start("agent", command, environment)

    def _give_account(self, kubeconfig: Mapping[str, Any]) -> dict[str, str]:
        """Put a kubeconfig's user where a pod has its service account; return the API server's variables."""
        [cluster], [user] = kubeconfig["clusters"], kubeconfig["users"]
        account = self._folder / "account"
        account.mkdir(exist_ok=True)
        (account / "token").write_text(user["user"]["token"])
        shutil.copy(cluster["cluster"]["certificate-authority"], account / "ca.crt")
        self._sandbox.check("mkdir", "-p", str(Path(ACCOUNT).parent))
        self._sandbox.check("ln", "-sfn", str(account), ACCOUNT)
        server = urlsplit(cluster["cluster"]["server"])
        return {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}

    def start_whole_gpu(self, card: Card) -> Process:
        """Start NVIDIA's own device plugin on the node, which sees one card and offers it whole."""
        cards = self._folder / "whole"
        NvmlNode((card,)).write(cards)
        environment = {**self._environment, **self._driver.environment, library.CARDS: str(cards)}
        return self._sandbox.start(
            "whole-gpus", [str(self._programs.folder / "nvidia-device-plugin")], environment
        )

    def start_nvidia_dra(self, node: str, kubeconfig: Path) -> Process:
        """Start NVIDIA's own DRA driver on the node, whose cards several claims may take memory of."""
        command = [
            str(self._programs.folder / "gpu-kubelet-plugin"),
            *(f"--kubeconfig={kubeconfig}", f"--node-name={node}", "--image-name=unused"),
            f"--nvidia-driver-root={self._driver.folder}",
            f"--container-driver-root={self._driver.folder}",
            f"--cdi-root={self._sandbox.folder / 'cdi'}",
            f"--nvidia-cdi-hook-path={self._hook}",
            *("--feature-gates=ConsumableShares=true", "--consumable-shares=memory"),
        ]
        return self._sandbox.start("nvidia-dra", command, {**self._environment, **self._driver.environment})

    def kill(self) -> None:
        """Kill it as the kernel would, with what it started."""
        assert self._process
        self._process.kill()

    def stop(self) -> None:
        """End it with SIGTERM."""
        assert self._process
        self._process.stop()

    @property
    def log(self) -> Path:
        """Its log file."""
        return self._sandbox.folder / "agent.log"
