"""fraction-injector certs: what the cluster holds of an installation's certificates."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from certs.observation import Observation
from certs.rotation import RotationSettings, Wait, decide, phase
from cli.options import POD_NAMESPACE, KubeconfigOption, fail, kubeconfig_of
from cli.terminal import Terminal

certs_app = typer.Typer(help="Look at an installation's certificates.", no_args_is_help=True)
CHART_NAMESPACE = "gpu-fraction-injector"


@certs_app.callback()
def _certs() -> None:
    """Look at an installation's certificates."""


@certs_app.command()
def status(
    name: Annotated[
        str, typer.Argument(help="Of the installation: of its webhook configuration.")
    ] = "fraction-injector",
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            show_default="the pod's own, or gpu-fraction-injector",
            help="Of its Secrets.",
        ),
    ] = None,
    webhook_endpoint: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", show_default="those of the Service", help="Webhook to dial."),
    ] = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Say where the rotation is, what it waits for, and when each certificate ends.

    It reads Secrets, so it takes an administrator's rights. Exit status: 0 steady, 1 under way.
    """
    found = kubeconfig_of(kubeconfig)
    where_to_look = namespace or (_own_namespace() if found is None else CHART_NAMESPACE)
    seen = asyncio.run(_look(found, where_to_look, name, tuple(webhook_endpoint or ())))
    now, where = datetime.now(UTC), phase(seen)
    action = decide(seen, now, RotationSettings())
    console = Terminal()
    console.print(f"phase: {where.value}")
    what = f"waits: {action.why}" if isinstance(action, Wait) else f"next: {type(action).__name__}"
    console.print(what)
    console.print(_table(seen, now))
    raise typer.Exit(0 if where.value.startswith("S0") and isinstance(action, Wait) else 1)


def _own_namespace() -> str:
    try:
        return POD_NAMESPACE.read_text().strip()
    except OSError:
        return CHART_NAMESPACE


async def _look(
    kubeconfig: Path | None, namespace: str, name: str, endpoints: tuple[str, ...]
) -> Observation:
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from controller.certificates.loop import read_state  # noqa: PLC0415
    from controller.certificates.store import CertificateStore, Installation  # noqa: PLC0415
    from controller.kube_client import TRANSPORT_ERRORS, ApiError, NoApiServerError, connected  # noqa: PLC0415

    try:
        async with connected(kubeconfig) as api:
            store = CertificateStore(api, Installation(namespace, name, endpoints))
            if not await store.exists():
                names = f"{name}-ca and {name}-tls"
                fail(f"namespace {namespace} has no Secrets {names}: name the installation and --namespace")
            return (await read_state(store, ())).seen
    except (ApiError, NoApiServerError, *TRANSPORT_ERRORS) as error:
        fail(f"certificates of {name} in {namespace} cannot be read: {error}")


def _table(seen: Observation, now: datetime) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for column in ("CERTIFICATE", "SHA-256", "ENDS", "DAYS", "KNOWN TO"):
        drawn.add_column(column)
    own, leaf = seen.authorities, seen.tls.leaf
    named = [("CA", own.current), ("next CA", own.coming), *(("previous CA", ca) for ca in own.previous)]
    for title, authority in named:
        if authority is not None:
            known = [
                ("caBundle", authority in (seen.bundle or ())),
                ("ca.crt", authority in seen.tls.trusted),
            ]
            known.append(("injected-ca", authority.sha256 in seen.tls.injected))
            places = ", ".join(place for place, there in known if there)
            drawn.add_row(title, authority.sha256[:16], *_end(authority.not_after, now), places)
    if leaf is not None:
        served = f"issued by {leaf.issuer_sha256[:16]}"
        drawn.add_row("leaf", leaf.sha256[:16], *_end(leaf.not_after, now), served)
    for endpoint, maker in seen.served.items():
        drawn.add_row(
            f"served by {endpoint}", "", "", "", f"issued by {maker[:16]}" if maker else "no answer"
        )
    return drawn


def _end(moment: datetime, now: datetime) -> tuple[str, str]:
    return moment.strftime("%Y-%m-%d %H:%M"), str((moment - now).days)
