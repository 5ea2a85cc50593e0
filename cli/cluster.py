"""Asks the API server of a cluster for a subcommand, with the rights of its user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cli.options import fail, kubeconfig_of

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer

Answer = TypeVar("Answer")


def ask(
    kubeconfig: Path | None,
    context: str | None,
    question: Callable[[ApiServer], Awaitable[Answer]],
    cannot: str,
) -> Answer:
    """Run a query on the API server and return its result, or end the command.

    Args:
        kubeconfig: the option's value.
        context: of the kubeconfig; None for the current one.
        question: the query, which gets the connection.
        cannot: beginning of the error message, such as "the pods cannot be read".
    """
    # Here and not above: help and the other subcommands must start without the Kubernetes client.
    import asyncio  # noqa: PLC0415

    from msgspec import MsgspecError, ValidationError  # noqa: PLC0415

    from cluster.endpoint import NoApiServerError  # noqa: PLC0415
    from cluster.kube_client import TRANSPORT_ERRORS, ApiError, connected, transport_problem  # noqa: PLC0415

    async def run() -> Answer:
        async with connected(kubeconfig_of(kubeconfig), context) as api:
            return await question(api)

    try:
        return asyncio.run(run())
    except (ApiError, NoApiServerError, ValidationError) as error:
        fail(f"{cannot}: {error}")
    except MsgspecError:
        fail(f"{cannot}: what answers is no API server: check its address")
    except TRANSPORT_ERRORS as error:
        fail(f"{cannot}: {transport_problem(error)}")
