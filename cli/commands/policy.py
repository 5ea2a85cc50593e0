"""`fraction-injector policy show|schema`: shows policies, and their schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import OutputFormat, OutputOption, PoliciesOption, fail, read_policies
from cli.printing import say, say_json
from ledger.queue_names import sanitised
from policies.model.problems import did_you_mean, quoted
from service.options import DEFAULT_POLICIES

if TYPE_CHECKING:
    from policies.loading.policy_set import PolicySet
    from policies.loading.provenance import Value

MAX_QUEUES_NAMED = 20

policy_app = typer.Typer(
    help="Show the policy of a namespace and queue, and the schema of policy files.", no_args_is_help=True
)


@policy_app.command()
def show(
    policies: PoliciesOption = DEFAULT_POLICIES,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the pod.")] = "default",
    queue: Annotated[str | None, typer.Option(help="ClearML queue, as written or as its label.")] = None,
    queue_id: Annotated[str | None, typer.Option(help="Id of the ClearML queue.")] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the policy that pods of a namespace and queue follow, and where each value comes from."""
    from policies.loading.provenance import trace  # noqa: PLC0415 help does not wait for the policies' code

    policy_set = read_policies(policies)
    note = _checked_queue(policy_set, namespace, queue, queue_id)
    effective = policy_set.resolve(namespace, queue, queue_id)
    if output is OutputFormat.JSON:
        values = trace(policy_set, namespace, queue, queue_id)
        say_json([{"key": ".".join(each.path), "value": each.value, "from": each.origin} for each in values])
        return
    if note is not None:
        say(note)
    say(f"# {effective.marker}{f', queue {effective.queue}' if effective.queue else ''}")
    for value in trace(policy_set, namespace, queue, queue_id):
        say(_line(value))
    limiter, source = policy_set.parts.limiters[effective.limiter.name]
    say(f"# limiter {limiter.name} is from {source.line('name')} and needs:")
    for need in limiter.needs:
        say(f"#   {need}")


@policy_app.command()
def schema(
    *,
    tables: Annotated[bool, typer.Option("--tables", help="Print Markdown tables, as in the docs.")] = False,
) -> None:
    """Print the JSON Schema of policy files, for editors that complete and check them."""
    from policies.loading.reference import json_schema, markdown  # noqa: PLC0415 as above

    typer.echo(markdown() if tables else json.dumps(json_schema(), indent=2), nl=not tables)


def _checked_queue(
    policy_set: PolicySet, namespace: str, queue: str | None, queue_id: str | None
) -> str | None:
    """End the command for an unknown queue; return a note if its entry applies to other namespaces."""
    entries = policy_set.parts.queues
    named = {sanitised(name): name for name in entries}
    for policy, _ in policy_set.parts.policies.values():
        named |= {sanitised(name): name for name in policy.quotas.queues if sanitised(name) not in named}
    if queue is not None and sanitised(queue) not in named:
        known = ", ".join(sorted(named.values())[:MAX_QUEUES_NAMED]) or "none"
        rule = f"no policy file names queue {quoted(queue)}{did_you_mean(queue, named.values())}"
        fail(f"{rule}: known are {known}; pods of other queues follow their namespace: leave --queue out")
    if queue_id is not None and queue_id not in policy_set.queue_by_id:
        fail(f"no queue entry has the id {quoted(queue_id)}: leave --queue-id out, or add it to the entry")
    if policy_set.entry_of(namespace, queue, queue_id) is not None or queue is None:
        return None
    entry = entries.get(named[sanitised(queue)])
    if entry is not None and entry[0].namespaces:
        return (
            f"# queue {queue}: its entry holds in {', '.join(entry[0].namespaces)} only, not in {namespace}"
        )
    return None


def _line(value: Value) -> str:
    return f"{'.'.join(value.path)}: {_text(value.value)}  # {value.origin}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
