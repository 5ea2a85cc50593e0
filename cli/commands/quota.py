"""fraction-injector quota: shows the usage of quotas of namespaces and queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.cluster import ask
from cli.options import (
    RELEASE,
    AllNamespacesOption,
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    ReleaseOption,
    fail,
    release_of,
)
from cli.printing import say, say_json, table
from policies.model.problems import PolicyError

if TYPE_CHECKING:
    from describe.quota_report import CountedQuota
    from ledger.placement_request import Quota


def quota(  # noqa: PLR0913 each is an option of the command
    *,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            show_default="all",
            help="Only the quota of this namespace, and those of queues that apply in it.",
        ),
    ] = None,
    all_namespaces: AllNamespacesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    release: ReleaseOption = RELEASE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show the usage of the quotas of namespaces and queues, and how many pods wait for each.

    Reads the policies' ConfigMap, nodes and pods of all namespaces, and counts as the controller does.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from describe.quota_report import read_quotas  # noqa: PLC0415

    place, name = release_of(release)
    namespace = None if all_namespaces else namespace
    try:
        question = partial(read_quotas, namespace=place, config_map=f"{name}-policies")
        found = ask(kubeconfig, context, question, "the quotas cannot be counted")
    except PolicyError as error:
        fail(f"the policies of ConfigMap {place}/{name}-policies are broken\n{error}")
    counted = [_as_json(each) for each in found if namespace is None or _counts_in(each.quota, namespace)]
    if output is OutputFormat.JSON:
        say_json(counted)
    elif counted:
        say(table([("OF", "NAME", "SLICES", "PODS", "MIB", "WAITING"), *map(_row, counted)]))
    else:
        say("no quota" + (f" holds pods of namespace {namespace}" if namespace is not None else " is given"))


def _counts_in(quota: Quota, namespace: str) -> bool:
    if quota.scope == "namespace":
        return quota.name == namespace
    if quota.namespaces is None:
        return namespace not in quota.other_namespaces
    return namespace in quota.namespaces


def _row(use: dict[str, Any]) -> tuple[str, ...]:
    amounts = (_of(**use[unit]) for unit in ("slices", "pods", "memoryMiB"))
    return (use["of"], use["name"], *amounts, str(use["waiting"]))


def _of(used: int, limit: int | None) -> str:
    if limit is None:
        return str(used)
    return f"{used} of {limit}{' (used up)' if used >= limit else ''}"


def _as_json(use: CountedQuota) -> dict[str, Any]:
    limits = use.quota
    return {
        "of": limits.scope,
        "name": limits.name,
        "slices": {"used": use.slices, "limit": limits.slices},
        "pods": {"used": use.pods, "limit": limits.max_pods},
        "memoryMiB": {"used": use.mib, "limit": limits.memory_mib},
        "waiting": use.waiting,
    }
