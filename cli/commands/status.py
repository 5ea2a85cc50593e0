"""fraction-injector status: shows which policies each process serves."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from cli.cluster import ask
from cli.options import (
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    PoliciesConfigMapOption,
    config_map_of,
)
from cli.printing import say, say_json, table

if TYPE_CHECKING:
    from describe.policy_status import PolicyStatus, ServedBy

NOT_EVERYWHERE = 1
"""Exit status if not all serve the policies of the ConfigMap."""


def status(
    *,
    output: OutputOption = OutputFormat.TABLE,
    policies_config_map: PoliciesConfigMapOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show which policies each webhook and controller serves, and since when.

    Reads the policies' ConfigMap, and queries each pod that mounts it through the API server. It needs the
    rights to get that ConfigMap, to list pods and to get pods/proxy in its namespace. Exit status: 0 all
    serve the policies of the ConfigMap, 1 not all do, 2 it cannot be read.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from describe.policy_status import read_status  # noqa: PLC0415

    namespace, name = config_map_of(policies_config_map)
    question = partial(read_status, namespace=namespace, config_map=name)
    found = ask(kubeconfig, context, question, f"the status of {namespace}/{name} cannot be read")
    if output is OutputFormat.JSON:
        say_json(_as_json(found))
    else:
        _print(found)
    raise typer.Exit(0 if found.are_in_force else NOT_EVERYWHERE)


def _print(found: PolicyStatus) -> None:
    say(_summary(found))
    if found.problem is not None:
        say(f"The policies of the ConfigMap are broken: {found.problem}")
    if found.served:
        rows = [(each.pod, each.digest or "-", _time(each) or "-", _notes(each)) for each in found.served]
        say(table([("POD", "POLICIES", "SINCE", ""), *rows]))
    reported = found.webhooks_by_policies
    if reported is not None:
        each_set = ", ".join(f"{count} serve {digest or 'none'}" for digest, count in reported.items())
        say(f"webhooks, as reported to the leading controller: {each_set or 'none reported'}")


def _notes(served: ServedBy) -> str:
    return "; ".join(filter(None, ("leads" if served.leads else "", served.problem or "")))


def _summary(found: PolicyStatus) -> str:
    where = f"policies {found.digest or 'without a digest'} of ConfigMap {found.config_map}"
    counts = Counter(each.component for each in found.served)
    everybody = ", ".join(f"{component}s: {count}" for component, count in sorted(counts.items()))
    if found.are_in_force:
        return f"{where} are in force everywhere ({everybody or 'webhooks outside of the cluster'})"
    return f"{where} are not in force everywhere ({everybody or 'no pod mounts them'})"


def _time(served: ServedBy) -> str | None:
    if served.since is None:
        return None
    return datetime.fromtimestamp(served.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as_json(found: PolicyStatus) -> dict[str, Any]:
    served = [
        {
            "pod": each.pod,
            "component": each.component,
            "digest": each.digest,
            "since": _time(each),
            "leads": each.leads,
            "problem": each.problem,
        }
        for each in found.served
    ]
    return {
        "inForce": found.are_in_force,
        "configMap": found.config_map,
        "digest": found.digest,
        "problem": found.problem,
        "served": served,
        "webhooksByPolicies": found.webhooks_by_policies,
    }
