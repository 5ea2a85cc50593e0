"""The smallest shares that would have held the pods that were seen."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from cli.cluster import ask
from cli.options import fail, release_of
from cli.printing import say, say_json, table
from cli.share_use_table import size_as_json

if TYPE_CHECKING:
    from describe.suggestions import Suggestion

_OWNER = ("NAMESPACE", "QUEUE", "OWNER", "PODS")
HEADINGS = (*_OWNER, "HOLD", "PEAK MIB", "P95 MIB", "GPU TIME", "ENOUGH", "MEASURED")
ADVICE = "ENOUGH is for memory: write the next larger fraction that the policy allows"
_NONE = "-"


def print_suggestions(
    namespace: str | None,
    release: str,
    kubeconfig: Path | None,
    context: str | None,
    *,
    as_json: bool,
) -> None:
    """Read the controller's history, and GpuLedgers, GpuNodes and pods for what runs now, and print both.

    MEASURED says how long pods were watched.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from describe.suggestions import read_suggestions  # noqa: PLC0415

    place, name = release_of(release)
    now, config_map = datetime.now(UTC), (place, f"{name}-use")
    question = partial(read_suggestions, namespace=namespace, now=now, config_map=config_map)
    try:
        answer = ask(kubeconfig, context, question, "no GpuLedgers, GpuNodes and pods")
    except msgspec.MsgspecError as error:
        fail(f"pods cannot be read: {error}")
    found = answer.found
    if answer.missing is not None:
        typer.echo(f"only pods that run now are counted: {answer.missing}", err=True)
    if as_json:
        say_json([_as_json(each) for each in found])
    elif found:
        say(table([HEADINGS, *map(_row, found)]))
        typer.echo(ADVICE, err=True)
    else:
        say("no pod holds a share of a GPU, or did in the last 30 days")


def _row(found: Suggestion) -> tuple[str, ...]:
    pods = f"{found.pods} of {found.pods + found.unmeasured}" if found.unmeasured else str(found.pods)
    size = found.size
    who = (found.namespace, found.queue or _NONE, found.owner or _NONE, pods, size.text(found.held))
    if not found.enough:
        return (*who, *[_NONE] * 4, "not at all")
    busy = f"{found.busy_percent} %" if found.busy_percent is not None else _NONE
    enough = size.text(found.enough)
    if size.in_mib:
        enough = f"{enough} ({_fraction(found.enough, size.amount)})"
    return (*who, str(found.peak_mib), str(found.p95_mib), busy, enough, f"{found.hours:.1f} h")


def _fraction(mib: int, card_mib: int) -> str:
    """Return the fraction of a card that holds so many MiB, rounded up to thousandths."""
    thousandths = -(-1000 * mib // max(1, card_mib))
    return f"{thousandths // 1000}.{thousandths % 1000:03}"


def _as_json(found: Suggestion) -> dict[str, Any]:
    return {
        "namespace": found.namespace,
        "queue": found.queue,
        "owner": found.owner,
        "pods": found.pods,
        "unmeasuredPods": found.unmeasured,
        **size_as_json(found.size, found.held),
        "peakMiB": found.peak_mib,
        "p95MiB": found.p95_mib,
        "busyPercent": found.busy_percent,
        "enoughSlices": found.size.slices(found.enough or None),
        "enoughMiB": found.size.mib(found.enough or None),
        "measuredHours": round(found.hours, 2),
        "lastSeen": _time(found.last_seen),
    }


def _time(seconds: int) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None
