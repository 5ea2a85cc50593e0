"""fraction-injector certs: shows and renews an installation's certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.cluster import ask
from cli.options import (
    RELEASE,
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    ReleaseOption,
    fail,
    release_of,
)
from cli.printing import say, say_json, table

if TYPE_CHECKING:
    from certs.observation import Authority, Observation
    from certs.values import LeafFacts
    from cluster.kube_client import ApiServer

certs_app = typer.Typer(help="Show and renew an installation's certificates.", no_args_is_help=True)
UNDER_WAY = 1
"""Exit status while a rotation is in progress."""


@certs_app.command()
def status(
    *,
    release: ReleaseOption = RELEASE,
    webhook_endpoint: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", show_default="those of the Service", help="Webhook to connect to."),
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show the phase of the rotation, what it waits for, and when each certificate expires.

    It reads Secrets, so it needs an administrator's rights. Exit status: 0 steady, 1 rotation in progress.
    """
    # Here and not above: help does not wait for the code that reads certificates.
    from certs.rotation import RotationSettings, Wait, decide, phase  # noqa: PLC0415

    where_to_look, name = release_of(release)
    what = f"certificates of {name} in {where_to_look} cannot be read"
    seen = ask(kubeconfig, context, lambda api: _look(api, where_to_look, name, webhook_endpoint or ()), what)
    now, where = datetime.now(UTC), phase(seen)
    action = decide(seen, now, RotationSettings())
    what = action.why if isinstance(action, Wait) else ""
    step = "" if isinstance(action, Wait) else type(action).__name__
    rows = list(_rows(seen, now))
    if output is OutputFormat.JSON:
        say_json([{"kind": "rotation", "phase": where.value, "waits": what, "next": step}, *rows])
    else:
        say(f"phase: {where.value}\n{f'waits: {what}' if what or not step else f'next: {step}'}")
        say(table([("CERTIFICATE", "SHA-256", "ENDS", "DAYS", "KNOWN TO"), *map(_cells, rows)]))
    raise typer.Exit(0 if where.value.startswith("S0") and isinstance(action, Wait) else UNDER_WAY)


@certs_app.command()
def rotate(
    *,
    release: ReleaseOption = RELEASE,
    authority: Annotated[
        bool, typer.Option("--authority", help="Also renew the CA; the old one stays trusted for a day.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Make the controller issue a new leaf now, or a new CA and then a leaf of it.

    Removes the key from the Secret; the leading controller then issues a new certificate. Webhooks serve the
    old one until they have the new one. Only for certificates that the controller issues (tls.mode
    self-managed). Exit status: 0 requested, 1 a change of the CA is already in progress, 2 not possible.
    """
    where, name = release_of(release)
    suffix, key = ("ca", "ca.key") if authority else ("tls", "tls.key")

    async def drop(api: ApiServer) -> None:
        # Here and not above: the other subcommands must start without the Kubernetes client.
        from certs.rotation import Phase, phase  # noqa: PLC0415
        from controller.certificates.rotate import drop_key, has_leader  # noqa: PLC0415

        seen = await _look(api, where, name, ())
        if seen.authorities.current is None:
            fail(f"Secret {where}/{name}-ca has no CA with its key: renew certificates where they are issued")
        if authority and phase(seen) not in {Phase.STEADY, Phase.RETIRING}:
            say(f"a change of the CA is in progress, {phase(seen).value}: see fraction-injector certs status")
            raise typer.Exit(UNDER_WAY)
        if not await has_leader(api, where, f"{name}-controller", datetime.now(UTC)):
            fail(f"no controller leads in {where}, so nobody would issue a new certificate: start one first")
        await drop_key(api, where, f"{name}-{suffix}", key)

    ask(kubeconfig, context, drop, f"certificates of {name} in {where} cannot be changed")
    what = "CA, and then a leaf of it" if authority else "leaf"
    say(f"Secret {where}/{name}-{suffix} has lost its key: the controller issues a new {what} within seconds")


async def _look(api: ApiServer, namespace: str, name: str, endpoints: Sequence[str]) -> Observation:
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from controller.certificates.loop import read_state  # noqa: PLC0415
    from controller.certificates.store import CertificateStore, Installation  # noqa: PLC0415

    store = CertificateStore(api, Installation(namespace, name, tuple(endpoints)))
    if not await store.exists():
        names = f"{name}-ca and {name}-tls"
        fail(f"namespace {namespace} has no Secrets {names}: name the installation by --release")
    return (await read_state(store, ())).seen


def _rows(seen: Observation, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield each certificate, and what each endpoint serves."""
    own, leaf = seen.authorities, seen.tls.leaf
    named = [("CA", own.current), ("next CA", own.coming), *(("previous CA", ca) for ca in own.previous)]
    for title, authority in named:
        if authority is not None:
            known = {
                "caBundle": authority in (seen.bundle or ()),
                "ca.crt": authority in seen.tls.trusted,
                "injected-ca": authority.sha256 in seen.tls.injected,
            }
            yield _row(title, ", ".join(place for place, there in known.items() if there), authority, now)
    if leaf is not None:
        yield _row("leaf", f"issued by {leaf.issuer_sha256[:16]}", leaf, now)
    for endpoint, maker in seen.served.items():
        yield _row(f"served by {endpoint}", f"issued by {maker[:16]}" if maker else "no answer", None, now)


def _row(name: str, known_to: str, found: Authority | LeafFacts | None, now: datetime) -> dict[str, Any]:
    return {
        "kind": "certificate",
        "name": name,
        "sha256": found.sha256[:16] if found is not None else "",
        "ends": found.not_after if found is not None else None,
        "days": (found.not_after - now).days if found is not None else None,
        "knownTo": known_to,
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ends = f"{row['ends']:%Y-%m-%d %H:%M}" if row["ends"] is not None else ""
    return row["name"], row["sha256"], ends, str("" if row["days"] is None else row["days"]), row["knownTo"]
