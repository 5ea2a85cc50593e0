"""fraction-injector ledger: who holds which slices, from the controller or from the GpuLedgers."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import httpx
import msgspec
import typer
from rich.live import Live

from cli.ledger_table import table
from cli.options import fail
from cli.terminal import Terminal
from ledger.view import LedgerView
from ledger.wire import LedgerReply

SECONDS_BETWEEN_LOOKS = 1.0
DEFAULT_KUBECONFIG = Path("~/.kube/config")

Read = Callable[[], LedgerView]


class UnreadableLedgerError(Exception):
    """The ledger cannot be read now; the text says why."""


def ledger(
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew every second, until Ctrl-C.")] = False,
    controller: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default="read GpuLedgers",
            help="Ask a controller: https://HOST:PORT. It also tells who waits.",
        ),
    ] = None,
    tls_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="With --controller: tls.crt, tls.key and ca.crt to show and to trust.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default="$KUBECONFIG or ~/.kube/config", help="Where to read GpuLedgers."
        ),
    ] = None,
) -> None:
    """Show nodes, their GPUs slice by slice, and who holds them."""
    read = _source(controller, tls_dir, kubeconfig)
    console = Terminal()
    try:
        if not watch:
            console.print(table(read()))
            return
        with Live(table(read()), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(SECONDS_BETWEEN_LOOKS)
                live.update(table(read()), refresh=True)
    except UnreadableLedgerError as error:
        fail(str(error))
    except KeyboardInterrupt:
        return


def _source(controller: str | None, tls_dir: Path | None, kubeconfig: Path | None) -> Read:
    if controller is None:
        if tls_dir is not None:
            fail("--tls-dir goes with --controller")
        given = Path(os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG).expanduser()
        return _from_gpu_ledgers(kubeconfig or given)
    if tls_dir is None or kubeconfig is not None:
        fail("--controller needs --tls-dir DIR, and no --kubeconfig")
    return _from_controller(controller, tls_dir)


def _from_controller(url: str, tls_dir: Path) -> Read:
    try:
        context = ssl.create_default_context(cafile=str(tls_dir / "ca.crt"))
        context.load_cert_chain(tls_dir / "tls.crt", tls_dir / "tls.key")
    except OSError as error:
        fail(f"{tls_dir} holds no usable tls.crt, tls.key and ca.crt: {error}")
    client = httpx.Client(base_url=url, verify=context, trust_env=False)

    def read() -> LedgerView:
        try:
            answer = client.get("/v1/ledger").raise_for_status()
            return msgspec.json.decode(answer.content, type=LedgerReply).ledger
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            raise UnreadableLedgerError(f"no ledger from {url}: {error}") from error

    return read


def _from_gpu_ledgers(kubeconfig: Path) -> Read:
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from controller.api_server import TRANSPORT_ERRORS, ApiError, NoApiServerError, connect  # noqa: PLC0415
    from controller.gpu_ledger import list_gpu_ledgers, view_of  # noqa: PLC0415

    async def look() -> LedgerView:
        api = await connect(kubeconfig)
        try:
            views = map(view_of, await list_gpu_ledgers(api))
        finally:
            await api.close()
        return LedgerView(tuple(view for view in views if view is not None), ())

    def read() -> LedgerView:
        try:
            return asyncio.run(look())
        except (ApiError, NoApiServerError, *TRANSPORT_ERRORS) as error:
            raise UnreadableLedgerError(f"no GpuLedgers: {error}") from error

    return read
