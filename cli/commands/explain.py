"""fraction-injector explain: previews the decision for pods, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import (
    UNUSABLE,
    FilenameOption,
    InventoryOption,
    OutputFormat,
    OutputOption,
    PoliciesOption,
    files_of,
    parsed_policies,
    policy_files,
    read_ledger,
)
from cli.printing import say, say_json
from kube.dra import DRIVER
from service.options import DEFAULT_POLICIES

SOME_DENIED = 1


def explain(  # noqa: PLR0913 each is an option of the command
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            show_default=False,
            help="Pods, AdmissionReviews, or anything with pod templates; - is standard input.",
        ),
    ] = None,
    *,
    filename: FilenameOption = None,
    together: Annotated[
        bool, typer.Option("--together", help="Decide all pods in one ledger, in their order.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Of several pods print all that is printed of one, not a line each."),
    ] = False,
    patch: Annotated[
        bool,
        typer.Option("--patch", help="The same, with the operations of the JSON Patch instead of a diff."),
    ] = False,
    policies: PoliciesOption = DEFAULT_POLICIES,
    inventory: InventoryOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Preview pods: the decision, why, and what would change, as a diff of its YAML; of several a line each.

    The webhook's own code decides every object as if it were the only one, or with --together as if they were
    created one after the other. Exit status: 0 all are allowed, 1 some are denied, 2 something cannot be
    read; the rest is explained in any case.
    """
    given = files_of(files, filename)
    # Here and not above: help and usage errors do not wait for the webhook's code.
    from cli.explain_report import explain_file, print_line, print_text  # noqa: PLC0415
    from cli.explainer import Explainer, Explanation  # noqa: PLC0415
    from cli.manifests import ManifestError  # noqa: PLC0415

    found = policy_files(policies)
    policy_set = parsed_policies(policies, found)
    ledger = read_ledger(policy_set, inventory)
    if ledger.cards.kinds(DRIVER):
        # As the chart does where agents offer their cards to claims.
        policy_set = parsed_policies(policies, found, by_claim=True)
    explainer = Explainer(policy_set, ledger, together=together)
    explanations: list[Explanation] = []
    all_read = True
    for file in given:
        try:
            explanations += explain_file(explainer, file)
        except ManifestError as error:
            all_read = False
            say(f"fraction-injector: {error}", err=True)
    if output is OutputFormat.JSON:
        say_json([each.as_json() for each in explanations])
    elif len(explanations) > 1 and not (diff or patch):
        for each in explanations:
            print_line(each)
    else:
        for each in explanations:
            print_text(each, patch=patch)
    if not all_read:
        raise typer.Exit(UNUSABLE)
    if not all(explanation.allowed for explanation in explanations):
        raise typer.Exit(SOME_DENIED)
