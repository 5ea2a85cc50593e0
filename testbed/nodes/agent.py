"""The product's node agent on a node, in place of the stand-in device plugin, with GPUs from a file.

It runs as a process of the node, or as the chart's DaemonSet.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.nodes import limit_hook
from testbed.nodes.sandbox import Sandbox
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
MEMORY = "/sys/fs/cgroup/memory"
SAME_EVERYWHERE = "/run/gpu-node"
"""Where each node's own folder is mounted, so that the pods of one DaemonSet find theirs."""


def chart_values(runtime_endpoint: str) -> Mapping[str, Any]:
    """Return values by which the chart runs the agent on nodes whose GPUs are made up."""
    folder = f"{SAME_EVERYWHERE}/agent"
    return {
        "agent": {
            "enabled": True,
            "stateDir": f"{SAME_EVERYWHERE}/state",
            "cdiDirs": [f"{SAME_EVERYWHERE}/cdi"],
            "runtimeSocket": runtime_endpoint,
            "extraArgs": ["--gpu-file=/gpus/gpus.json"],
            "extraVolumes": [{"name": "gpus", "hostPath": {"path": folder, "type": "Directory"}}],
            "extraVolumeMounts": [{"name": "gpus", "mountPath": "/gpus", "readOnly": True}],
        },
        "policies": {"default": {"limits": {"from": "agent"}}},
    }


class AgentOnNode:
    """An agent, and what a node with GPUs has for it: NVIDIA's CDI specification and a limiter's library.

    Args:
        sandbox: Of the node.
        runtime_endpoint: Socket of its container runtime.
        gpus: As the file of made-up GPUs has them.
        environment: Of the node's programs.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        runtime_endpoint: str,
        gpus: Sequence[Mapping[str, Any]],
        environment: Mapping[str, str],
    ) -> None:
        self._sandbox = sandbox
        self._endpoint = runtime_endpoint
        self._environment = environment
        self._folder = sandbox.folder / "agent"
        self._process: Process | None = None
        self._gpus = gpus
        self._driver_limits = False
        self.divide: Sequence[str] = ()
        """Cards that it offers in slices, from its next start on; all where none is named."""
        (self._folder / "library").mkdir(parents=True, exist_ok=True)
        (self._folder / "library" / "libvgpu.so").write_text(LIBRARY_TEXT)
        (self._folder / "policies").mkdir(exist_ok=True)
        self.write_policy(LIMITS_BY_AGENT)
        self.write_gpus(gpus)
        self._write_card_names(gpus)

    def write_policy(self, text: str) -> None:
        """Say by which policy it runs."""
        (self._folder / "policies" / "default.yaml").write_text(text)

    def write_gpus(self, gpus: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]] = ()) -> None:
        """Say which GPUs there are, and what happened to them."""
        fresh = self._folder / "fresh"
        fresh.write_text(json.dumps({"gpus": gpus, "events": events, "driverLimits": self._driver_limits}))
        fresh.rename(self._folder / "gpus.json")

    def set_driver_limits(self, *, offered: bool) -> None:
        """Have a driver that can hold containers to GPU memory or cannot, from the agent's next start on."""
        self._driver_limits = offered
        self.write_gpus(self._gpus)
        self._write_card_names(self._gpus)

    def driver_limits(self) -> list[Mapping[str, Any]]:
        """Return what the driver holds to GPU memory, in the order of that: `group`, `uuid` and `mib`.

        As with the real one, a control group that is gone is held to nothing.
        """
        file = self._folder / "limits"
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [
            each for each in told if self._sandbox.run("test", "-d", f"{MEMORY}{each['group']}").code == 0
        ]

    def _write_card_names(self, gpus: Sequence[Mapping[str, Any]]) -> None:
        """Write what NVIDIA's toolkit would, with the null device for every card."""
        devices = [
            {
                "name": gpu["uuid"],
                "containerEdits": {
                    "deviceNodes": [{"path": f"/dev/nvidia{gpu['index']}", "hostPath": "/dev/null"}],
                    "env": ["NVIDIA_VISIBLE_DEVICES=void"],
                    **({"hooks": [self._limit_hook(gpu["uuid"])]} if self._driver_limits else {}),
                },
            }
            for gpu in gpus
        ]
        cdi = self._sandbox.folder / "cdi"
        cdi.mkdir(exist_ok=True)
        text = json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices})
        (cdi / "nvidia.yaml").write_text(text)

    def _limit_hook(self, uuid: str) -> Mapping[str, Any]:
        arguments = [sys.executable, "-S", limit_hook.__file__, str(self._folder / "limits")]
        return {
            "hookName": "createRuntime",
            "path": sys.executable,
            "args": [*arguments, limit_hook.NAME, "--gpu-id", uuid],
        }

    def show_folder(self) -> None:
        """Mount the node's folder where the chart's agent looks for it; to be done after each boot."""
        self._sandbox.check("mkdir", "-p", SAME_EVERYWHERE)
        self._sandbox.check("mount", "--bind", str(self._sandbox.folder), SAME_EVERYWHERE)

    def start(self) -> None:
        """Start it; it is ready when the kubelet counts its slices. The runtime must serve already."""
        version = self._folder / "runtime-version"
        asking = [sys.executable, "-m", "agent.runtime_version", self._endpoint, str(version)]
        self._sandbox.check(*asking, environment={**self._environment, "PYTHONPATH": str(CHECKOUT)})
        options = [
            f"--policies={self._folder / 'policies'}",
            f"--state-dir={self._folder}",
            f"--cdi-dir={self._sandbox.folder / 'cdi'}",
            f"--runtime-version-file={version}",
            f"--gpu-file={self._folder / 'gpus.json'}",
            "--driver-limits",
            *(f"--divide={card}" for card in self.divide),
        ]
        environment = {**self._environment, "PYTHONPATH": str(CHECKOUT)}
        command = [sys.executable, "-m", "cli.main", "agent", *options]
        self._process = self._sandbox.start("agent", command, environment)

    def start_whole_gpus(self, *uuids: str) -> Process:
        """Start another device plugin on the node, which offers whole cards as NVIDIA's does."""
        command = [
            sys.executable,
            "-m",
            "testbed.nodes.whole_gpus",
            "/var/lib/kubelet/device-plugins",
            *uuids,
        ]
        environment = {**self._environment, "PYTHONPATH": str(CHECKOUT)}
        return self._sandbox.start("whole-gpus", command, environment)

    def kill(self) -> None:
        """Kill it as the kernel would, with what it started."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.stop()

    def stop(self) -> None:
        """End it with SIGTERM."""
        assert self._process
        self._process.stop()

    @property
    def log(self) -> Path:
        """Its log file."""
        return self._sandbox.folder / "agent.log"
