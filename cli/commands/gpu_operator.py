"""`fraction-injector gpu-operator-values`: values for NVIDIA's GPU operator that match a policy."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.gpu_operator_values import MAX_GPUS, CannotWorkError, Platform, ValuesRequest, render
from cli.options import PoliciesOption, fail, read_policies
from service.options import DEFAULT_POLICIES


def gpu_operator_values(
    *,
    gpus: Annotated[int, typer.Option(min=1, max=MAX_GPUS, help="GPUs of one node (the largest).")],
    platform: Annotated[
        Platform | None, typer.Option(show_default="any other", help="A distribution with its own paths.")
    ] = None,
    mig: Annotated[
        bool, typer.Option("--mig", help="Cards of some nodes are divided into MIG instances.")
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="The chart's agent offers the GPUs of nodes that opt in by a label."),
    ] = False,
    policies: PoliciesOption = DEFAULT_POLICIES,
) -> None:
    """Print GPU-operator values with which nodes advertise the resources of policy default.

    On OpenShift, a ConfigMap and a patch for the ClusterPolicy. Exit code 2: the combination cannot work.
    """
    policy = read_policies(policies).resolve("default", None, None)
    try:
        typer.echo(render(policy, ValuesRequest(gpus, platform, mig, agent)), nl=False)
    except CannotWorkError as error:
        fail(str(error))
