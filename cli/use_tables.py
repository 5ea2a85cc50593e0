"""`ledger --use` and `--suggest`: what pods use of their shares, GPU hours, and which shares would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from cli.cluster import ask
from cli.ledger_filter import Filter
from cli.options import release_of
from cli.printing import camel, rfc3339, say, say_json, table
from ledger.use import HOUR_SECONDS, PodUses, shares_in_use, time_text

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer
    from ledger.use import GpuSize, UsedShare
    from ledger.use_history import OwnerUse
    from ledger.view import LedgerView

SHARES = ("NODE", "GPU", "POD", "SHARE", "MIB USED", "PEAK", "P95", "GPU TIME")
HOURS = ("NAMESPACE", "QUEUE", "GPU HOURS", "SINCE")
OWNERS = (*HOURS[:2], "OWNER", "PODS", "HOLD", "PEAK MIB", "P95 MIB", "GPU TIME", "ENOUGH", "MEASURED")
ADVICE = "ENOUGH is for memory: write the next larger fraction that the policy allows"
_NONE = "-"


def print_uses(
    asked: Filter, release: str, kubeconfig: Path | None, context: str | None, *, as_json: bool
) -> None:
    """Print a line for each share, and the GPU hours of namespaces and queues.

    Only the controller's history knows the hours: of pods that agents measured, as the recording rules
    count them of all pods, but not hour by hour.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from controller.pods.pod_claim import UNANSWERED  # noqa: PLC0415
    from describe.use import read_history, read_uses  # noqa: PLC0415

    place, name = release_of(release)
    # Hours are of no node, and of no GPU with room; `--suggest -o json` has them of each owner.
    has_hours = not as_json and asked.node is None and asked.free is None

    async def read(api: ApiServer) -> tuple[LedgerView, dict[str, PodUses], list[OwnerUse]]:
        view, uses = await read_uses(api)
        try:
            history = await read_history(api, place, f"{name}-use") if has_hours else []
        except (msgspec.MsgspecError, *UNANSWERED) as error:
            say(f"Not read: GPU hours, which are in ConfigMap {place}/{name}-use: {error}", err=True)
            history = []
        return view, uses, history

    view, uses, history = ask(kubeconfig, context, read, "no GpuLedgers and GpuNodes")
    shares = [
        share
        for node in asked.apply(view).nodes
        for share in shares_in_use(node, uses.get(node.name, PodUses()))
    ]
    if as_json:
        say_json(list(map(use_as_json, shares)))
        return
    say(use_lines(shares, datetime.now(UTC)))
    if hours := list(_hours(filter(asked.takes, history))):
        say("\n" + table([HOURS, *hours]))


def print_suggestions(
    namespace: str | None, release: str, kubeconfig: Path | None, context: str | None, *, as_json: bool
) -> None:
    """Print the smallest shares that would have held the pods of each queue and owner."""
    from describe.use import read_history  # noqa: PLC0415 as above

    place, name = release_of(release)
    read = partial(read_history, namespace=place, config_map=f"{name}-use")
    found = ask(kubeconfig, context, read, f"no history in ConfigMap {place}/{name}-use")
    owners = [each for each in found if namespace in {None, each.namespace}]
    owners.sort(key=lambda each: (-_spare_gpus(each), each.namespace, each.queue, each.owner))
    if as_json:
        say_json(list(map(owner_as_json, owners)))
    elif owners:
        say(table([OWNERS, *map(_owner_row, owners)]))
        typer.echo(ADVICE, err=True)
    else:
        say("no pod with a measured share of a GPU was seen in the last 30 days")


def use_lines(shares: Sequence[UsedShare], now: datetime) -> str:
    """Return the table of shares, and what it lacks."""
    if not shares:
        return "no pod holds a share of a GPU"
    lines = [table([SHARES, *(_share_row(each, now) for each in shares)])]
    if unknown := [each for each in shares if each.use is None]:
        nodes = len({each.node for each in unknown})
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        lines.append(
            f"not measured: {len(unknown)} of {len(shares)} shares, on {where};"
            " with agent.podMetrics agents measure every 15 s"
        )
    return "\n".join(lines)


def _hours(history: Iterable[OwnerUse]) -> Iterator[tuple[str, ...]]:
    """Yield the GPU hours of each namespace and queue, and since when they are counted."""
    ordered = sorted(history, key=lambda each: (each.namespace, each.queue))
    for (namespace, queue), group in groupby(ordered, lambda each: (each.namespace, each.queue)):
        owners = list(group)
        since = rfc3339(min(each.first_seen for each in owners))
        yield namespace, queue or _NONE, f"{sum(map(_gpu_hours, owners)):.1f}", since or "?"


def _gpu_hours(found: OwnerUse) -> float:
    return found.held_seconds / max(1, found.size.amount) / HOUR_SECONDS


def use_as_json(held: UsedShare) -> dict[str, Any]:
    """Return a share for `-o json`; the figures are null if they are not measured."""
    whose = {name: getattr(held, name) for name in ("node", "gpu", "namespace", "pod", "queue")}
    figures = ("memory_mib", "used_mib", "peak_mib", "p95_mib", "busy_percent", "since")
    return (
        whose | _size(held.size, held.held) | {camel(name): getattr(held.use, name, None) for name in figures}
    )


def owner_as_json(found: OwnerUse) -> dict[str, Any]:
    """Return an owner for `-o json`."""
    return {
        "namespace": found.namespace,
        "queue": found.queue,
        "owner": found.owner,
        "pods": found.pods,
        **_size(found.size, found.held),
        "peakMiB": found.peak_mib,
        "p95MiB": found.p95_mib,
        "busyPercent": found.busy_percent,
        "enoughSlices": found.size.slices(found.enough),
        "enoughMiB": found.size.mib(found.enough),
        "measuredHours": round(found.seconds / HOUR_SECONDS, 2),
        "gpuHours": round(_gpu_hours(found), 2),
        "firstSeen": rfc3339(found.first_seen),
        "lastSeen": rfc3339(found.last_seen),
    }


def _spare_gpus(found: OwnerUse) -> float:
    """Return how many GPUs its pods held beyond their need."""
    return (found.held - found.enough) * found.pods / max(1, found.size.amount)


def _share_row(held: UsedShare, now: datetime) -> tuple[str, ...]:
    use = held.use
    place = (held.node, held.gpu, f"{held.namespace}/{held.pod}", held.size.text(held.held))
    if use is None:
        return (*place, *[_NONE] * 4)
    used = f"{use.used_mib} of {use.memory_mib}"
    return (*place, used, str(use.peak_mib), str(use.p95_mib), time_text(use, now) or _NONE)


def _owner_row(found: OwnerUse) -> tuple[str, ...]:
    size, enough = found.size, found.size.text(found.enough)
    if size.in_mib:
        # Of the card, rounded up to thousandths.
        thousandths = -(-1000 * found.enough // max(1, size.amount))
        enough = f"{enough} ({thousandths // 1000}.{thousandths % 1000:03})"
    return (
        found.namespace,
        found.queue or _NONE,
        found.owner or _NONE,
        str(found.pods),
        size.text(found.held),
        str(found.peak_mib),
        str(found.p95_mib),
        f"{found.busy_percent} %" if found.busy_percent is not None else _NONE,
        enough,
        f"{found.seconds / HOUR_SECONDS:.1f} h",
    )


def _size(size: GpuSize, held: int) -> dict[str, Any]:
    """Return a part of a GPU for `-o json`, in slices or in MiB; the others are null."""
    return {
        "slices": size.slices(held),
        "slicesPerGpu": size.slices(size.amount),
        "claimedMiB": size.mib(held),
        "cardMiB": size.mib(size.amount),
    }
