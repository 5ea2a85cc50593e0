"""Stages of the agent on this machine, with a stand-in for the kubelet."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from agent.card_specification import FILE, CardSpecification
from agent.cdi import CdiError
from agent.gpu import Gpu
from agent.kubelet_api import deviceplugin_pb2 as api
from agent.kubelet_api.services import Stub, serve
from agent.options import AgentOptions
from bench.gpu.driver import opened
from bench.gpu.processes import ROOT
from bench.gpu.stages import MAX_WHY, CannotError, Figures, Setting, WrongError

SERVED_SECONDS, POLL_SECONDS = 60.0, 0.1
SLICES = 8
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0="
POLICY = "kind: Policy\nname: default\nlimits: {from: agent}\n"


def cdi(setting: Setting) -> Figures:
    """Let NVIDIA's generator name each card, and check that all files that it names exist."""
    gpus = _gpus(setting)
    folder = setting.scratch / "cdi"
    folder.mkdir(exist_ok=True)
    options = AgentOptions(
        state_dir=str(setting.scratch),
        cdi_dirs=(str(folder),),
        driver_root=str(setting.driver_root),
        host_driver_root=str(setting.driver_root),
    )
    try:
        CardSpecification(_generator(setting), options).make(gpus)
    except CdiError as error:
        raise WrongError(str(error)) from error
    content = json.loads((folder / FILE).read_text())
    edits = [content["containerEdits"], *(each["containerEdits"] for each in content["devices"])]
    paths = {mount["hostPath"] for each in edits for mount in each.get("mounts", ())}
    hooks = sorted({hook["args"][1] for each in edits for hook in each.get("hooks", ())})
    figures = {"cards": len(content["devices"]), "files": len(paths), "hooks": hooks}
    if gone := sorted(path for path in paths if not Path(path).exists()):
        raise WrongError(f"it names files that do not exist: {', '.join(gone)}", figures)
    return figures


def _gpus(setting: Setting) -> Sequence[Gpu]:
    with opened(setting) as source:
        gpus = [gpu for gpu in source.list_gpus() if not gpu.mig]
    if not gpus:
        raise CannotError("there is no GPU out of MIG mode")
    return gpus


def _generator(setting: Setting) -> str:
    program = shutil.which(setting.nvidia_ctk)
    if program is None:
        raise CannotError(f"there is no {setting.nvidia_ctk}: install NVIDIA's container toolkit")
    return program


class Kubelet:
    """Registers device plugins, and stores their devices."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.devices: dict[str, list[str]] = {}
        self.stubs: dict[str, Stub] = {}
        self._followers: set[asyncio.Task[None]] = set()

    async def Register(self, request: api.RegisterRequest, context: object) -> api.Empty:  # noqa: ARG002, N802 - the interface
        """Follow a plugin."""
        channel = grpc.aio.insecure_channel(f"unix:{self._folder / request.endpoint}")
        stub = self.stubs[request.resource_name] = Stub(api, "DevicePlugin", channel)
        follower = asyncio.create_task(self._follow(request.resource_name, stub))
        self._followers.add(follower)
        return api.Empty()

    async def _follow(self, resource: str, stub: Stub) -> None:
        async for answer in stub.ListAndWatch(api.Empty()):
            self.devices[resource] = [each.ID for each in answer.devices if each.health == "Healthy"]

    def stop(self) -> None:
        """Stop following plugins."""
        for follower in self._followers:
            follower.cancel()


def agent(setting: Setting) -> Figures:
    """Run the agent, and check that each card has eight slices, and that one is limited to an eighth."""
    return asyncio.run(_agent(setting, _gpus(setting)))


async def _agent(setting: Setting, gpus: Sequence[Gpu]) -> Figures:
    wanted = {f"nvidia.com/gpu-{gpu.index}": gpu for gpu in gpus}
    async with _kubelet(setting) as kubelet, _running(setting, gpus) as process:
        async with asyncio.timeout(SERVED_SECONDS):
            while kubelet.devices.keys() != wanted.keys():
                if process.returncode is not None:
                    said = (setting.scratch / "agent.log").read_text(errors="replace")[-MAX_WHY // 2 :]
                    raise WrongError(f"the agent ended: {said}")
                await asyncio.sleep(POLL_SECONDS)
        offered = {name: len(ids) for name, ids in kubelet.devices.items()}
        limits = {name: await _limit_of(kubelet, setting, name) for name in wanted}
    figures = {"offered": offered, "limits": limits}
    expected = {name: f"{gpu.usable_mib // SLICES}m" for name, gpu in wanted.items()}
    if set(offered.values()) != {SLICES} or limits != expected:
        raise WrongError(f"limits should be {expected}, of {SLICES} slices each", figures)
    return figures


async def _limit_of(kubelet: Kubelet, setting: Setting, resource: str) -> str:
    """Return the limit of the CDI device that a container with one slice gets."""
    [first, *_] = kubelet.devices[resource]
    request = api.ContainerAllocateRequest(devices_ids=[first])
    answer = await kubelet.stubs[resource].Allocate(api.AllocateRequest(container_requests=[request]))
    kind, _, name = answer.container_responses[0].cdi_devices[-1].name.partition("=")
    for file in (setting.scratch / "shares").glob("*.json"):
        content = json.loads(file.read_text())
        for device in content["devices"]:
            if (content["kind"], device["name"]) == (kind, name):
                env = device["containerEdits"]["env"]
                return next((each.removeprefix(LIMIT) for each in env if each.startswith(LIMIT)), "")
    return ""


@asynccontextmanager
async def _kubelet(setting: Setting) -> AsyncIterator[Kubelet]:
    folder = setting.scratch / "device-plugins"
    folder.mkdir(exist_ok=True)
    kubelet, server = Kubelet(folder), grpc.aio.server()
    serve(kubelet, api, "Registration", server)
    server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
    await server.start()
    try:
        yield kubelet
    finally:
        kubelet.stop()
        await server.stop(None)


@asynccontextmanager
async def _running(setting: Setting, gpus: Sequence[Gpu]) -> AsyncIterator[Process]:
    """Run the agent's command, with CDI devices of the cards that give no container anything."""
    shares = setting.scratch / "shares"
    shares.mkdir(exist_ok=True)
    devices = [{"name": gpu.uuid, "containerEdits": {}} for gpu in gpus]
    cards = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
    (shares / "nvidia.json").write_text(json.dumps(cards))
    library = setting.scratch / "library" / "libvgpu.so"
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(setting.limiter.read_bytes() if setting.limiter is not None else b"a stand-in\n")
    policies = setting.scratch / "policies"
    policies.mkdir(exist_ok=True)
    (policies / "default.yaml").write_text(POLICY)
    options: dict[str, Any] = {
        "policies": policies,
        "kubelet-dir": setting.scratch,
        "state-dir": setting.scratch,
        "cdi-dir": shares,
        "health-port": 0,
    }
    command = [
        "-m",
        "cli.main",
        "agent",
        "--cdi-enabled",
        *(f"--{key}={each}" for key, each in options.items()),
    ]
    with (setting.scratch / "agent.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=ROOT, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
