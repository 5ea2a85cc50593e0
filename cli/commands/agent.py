"""fraction-injector agent: the device plugin of a node."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent.divide import is_card_name
from agent.settings import APPLICATION_XIDS, CDI_DIRS, STRATEGIES, AgentOptions, DeviceListStrategy
from cli.process_options import LOOPBACK, LogFormatOption, LogLevelOption

CHECKOUT = Path(__file__).resolve().parent.parent.parent
UNUSABLE = 2


def agent(  # noqa: PLR0913 each is an option of the command
    *,
    policies: Annotated[
        Path,
        typer.Option(
            metavar="DIR", show_default="the built-in default policy", help="Directory of policy files."
        ),
    ] = CHECKOUT / "policies",
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Policy that gives resource names, slices, memory.reserveMiB and the limiter.",
        ),
    ] = "default",
    kubelet_dir: Annotated[
        Path,
        typer.Option(metavar="DIR", help="The kubelet's root folder; k3s and MicroK8s may have another."),
    ] = Path("/var/lib/kubelet"),
    state_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder of the agent, at the same path on the node; library/ holds the limiter's library.",
        ),
    ] = Path("/var/lib/clearml-injector"),
    cdi_dir: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            show_default="/etc/cdi, /var/run/cdi",
            help="Folder of CDI specifications: NVIDIA's may be in any, ours are written into the last.",
        ),
    ] = None,
    device_list_strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How containers get GPUs: cdi, volume-mounts or envvar. With the latter two a pod can lift "
            "its memory limit, and with envvar a container can hold one GPU only.",
        ),
    ] = "cdi",
    runtime_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="none",
            help="What the container runtime says of itself, as `python -m agent.ask_runtime SOCKET FILE` "
            "writes it: the agent itself never opens the runtime's socket.",
        ),
    ] = None,
    cdi_enabled: Annotated[
        bool,
        typer.Option(
            "--cdi-enabled",
            help="You know that the container runtime obeys CDI: --runtime-file is not read.",
        ),
    ] = False,
    divide: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CARD",
            show_default="all",
            help="Card to offer in slices, by index (0), UUID (GPU-...) or words of its model (A100-40*); "
            "the others stay whole, for another device plugin. Mode per-gpu only.",
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default="what lies in library/ of --state-dir",
            help="Folder, written by nobody else, with the limiter's library: it is put onto the node, and "
            "put back where it changes there.",
        ),
    ] = None,
    driver_limits: Annotated[
        bool,
        typer.Option(
            "--driver-limits",
            help="Have the driver hold shares too, where it can (615, control groups of version 2) and "
            "NVIDIA's CDI devices have the hook for it (toolkit 1.20.1). Needs /bin/sh and sed on the node.",
        ),
    ] = False,
    nvidia_ctk: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="none",
            help="NVIDIA's nvidia-ctk: has it write a CDI specification of the cards, and again when the "
            "driver's files change. Without it others must have written one.",
        ),
    ] = None,
    nvidia_cdi_hook: Annotated[
        Path,
        typer.Option(metavar="FILE", help="NVIDIA's nvidia-cdi-hook, as the node has it, for --nvidia-ctk."),
    ] = Path("/usr/bin/nvidia-cdi-hook"),
    driver_root: Annotated[
        Path, typer.Option(metavar="DIR", help="Root of the driver's files, for --nvidia-ctk.")
    ] = Path("/"),
    host_driver_root: Annotated[
        Path, typer.Option(metavar="DIR", help="The same, as the node has it.")
    ] = Path("/"),
    ignore_xid: Annotated[
        list[int] | None,
        typer.Option(
            metavar="NUMBER",
            show_default=", ".join(map(str, APPLICATION_XIDS)),
            help="Xid that says nothing of the GPU's health.",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="none",
            help="Write the GpuNode of this node, by the service account of the pod.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address of the plain port.")] = LOOPBACK,
    health_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Plain port for /livez, /readyz and /metrics; 0 takes a free one."
        ),
    ] = 9081,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "auto",
) -> None:
    """Offer the GPUs of this node to the kubelet in slices, and set each container's limit on the node.

    Needs the kubelet's folder and the driver. Stops on SIGTERM or Ctrl-C.
    """
    options = AgentOptions(
        policies=str(policies.absolute()),
        policy=policy,
        kubelet_dir=str(kubelet_dir),
        state_dir=str(state_dir),
        cdi_dirs=tuple(map(str, cdi_dir or CDI_DIRS)),
        strategy=_strategy(device_list_strategy),
        runtime_file=str(runtime_file) if runtime_file is not None else None,
        cdi_enabled=cdi_enabled,
        divide=_card_names(divide or []),
        library=str(library) if library is not None else None,
        driver_limits=driver_limits,
        nvidia_ctk=str(nvidia_ctk) if nvidia_ctk is not None else None,
        nvidia_cdi_hook=str(nvidia_cdi_hook),
        driver_root=str(driver_root),
        host_driver_root=str(host_driver_root),
        ignored_xids=tuple(ignore_xid) if ignore_xid is not None else APPLICATION_XIDS,
        node=node,
        host=host,
        health_port=health_port,
        log_level=log_level,
        log_format=log_format,
    )
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    # Many threads of gRPC would each get an arena of their own.
    environment = {"MALLOC_ARENA_MAX": "2", **os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "agent", msgspec.json.encode(options).decode()]
    os.execve(sys.executable, command, environment)  # noqa: S606 the command line's libraries leave the memory


def _card_names(texts: list[str]) -> tuple[str, ...]:
    for text in texts:
        if not is_card_name(text):
            rule = (
                "names no card: write an index such as 0, a UUID such as GPU-..., or a model such as A100-40*"
            )
            typer.echo(f'fraction-injector: --divide "{text}" {rule}', err=True)
            raise typer.Exit(UNUSABLE)
    return tuple(texts)


def _strategy(text: str) -> DeviceListStrategy:
    for strategy in STRATEGIES:
        if text == strategy:
            return strategy
    typer.echo(
        f'fraction-injector: --device-list-strategy "{text}" is unknown: use {", ".join(STRATEGIES)}',
        err=True,
    )
    raise typer.Exit(UNUSABLE)
