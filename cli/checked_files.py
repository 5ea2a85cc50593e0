"""What `check` finds in policy folders and files, and in the values of charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cli.manifests import content_of
from cli.options import read_policies
from policies.loading.clearml_chart import read_chart_values
from policies.loading.lint import lint
from policies.loading.loader import files_in, load_policies, parse_policies
from policies.loading.policy_set import PolicySet
from policies.loading.strict_yaml import MAX_BYTES, Document, read_documents
from policies.loading.values import are_values, charts_in, policies_of_values, problems_from_1_36
from policies.model.problems import PolicyError, Problem, UnreadableError

OTHER_VALUES = "; keys of other values are checked by Helm"
FROM_1_36 = "for Kubernetes 1.36 and newer, where mode auto is dra; or set resources.mode: per-gpu"
KINDS = frozenset({"Policy", "Limiter", "Queues"})


Level = Literal["ok", "note", "error"]
Result = tuple[Level, Problem]
"""A result, and its place and text."""
QueueReport = Callable[[Path, Sequence[Document]], Iterator[Result]]


def check_paths(paths: Sequence[Path], policies: Path, namespace: str) -> tuple[list[Result], bool]:
    """Return the results, and whether every path could be read; end the command for unusable options."""
    report = partial(_of_queues, policy_set=read_policies(policies), namespace=namespace)
    lines: list[Result] = []
    return lines, all(_check(path, report, lines) for path in paths)


def _check(path: Path, report: QueueReport, lines: list[Result]) -> bool:
    """Add the results of a path; return False if it cannot be read."""
    try:
        for line in _fine(path, path, load_policies(path)) if path.is_dir() else _of_file(path, report):
            lines.append(line)  # noqa: PERF402 what was found before an error counts
    except OSError as error:
        problem = Problem(path.name, 0, "", f"cannot be read: {error.strerror}")
        lines.append(_line(path.parent, problem, "error"))
        return False
    except PolicyError as error:
        folder = path if path.is_dir() else path.parent
        lines += [_line(folder, problem, "error") for problem in error.problems]
        return not isinstance(error, UnreadableError)
    return True


def _of_file(path: Path, report: QueueReport) -> Iterator[Result]:
    content, name = content_of(path, MAX_BYTES), path.name
    documents = read_documents(name, content)
    if any(isinstance(each.data, dict) and each.data.get("kind") in KINDS for each in documents):
        yield from _fine(path, path.parent, parse_policies(files_in(name, content, documents)))
        return
    foreign = [each.problem((), rule) for each in documents if (rule := _foreign(each.data))]
    yield from (_line(path.parent, problem, "error") for problem in foreign)
    parts = [each for document in documents if not _foreign(document.data) for each in charts_in(document)]
    own = [each for each in parts if are_values(each)]
    others = [each for each in parts if each not in own]
    if others or not (own or foreign):
        yield from report(path, others)
    if own:
        yield from _fine(path, path.parent, policies_of_values(own), OTHER_VALUES)
        newer = (replace(each, rule=f"{each.rule} ({FROM_1_36})") for each in problems_from_1_36(own))
        yield from (_line(path.parent, problem, "note") for problem in newer)


def _foreign(data: Any) -> str | None:
    """Say what a document is that is neither policies nor values of a chart, and what to do with it."""
    reads = "check reads policies and the values of charts"
    if not isinstance(data, dict):
        return f"is {'a list' if isinstance(data, list) else 'plain text'}, not a mapping: {reads}"
    kind = data.get("kind")
    if not isinstance(kind, str) or "apiVersion" not in data:
        return None
    if kind in {"Node", "NodeList"}:
        return f"is a Kubernetes object of kind {kind}: give nodes to `explain --inventory`"
    # Here and not above: see _of_queues.
    from cli.pod_templates import pod_templates  # noqa: PLC0415

    has_pods = kind == "AdmissionReview" or pod_templates({"found": data})
    advice = "`fraction-injector explain` says what its pods get" if has_pods else reads
    return f"is a Kubernetes object of kind {kind}: {advice}"


def _of_queues(
    path: Path, documents: Sequence[Document], policy_set: PolicySet, namespace: str
) -> Iterator[Result]:
    # Here and not above: help and usage errors do not wait for the webhook's code.
    from cli.queue_report import report_queues  # noqa: PLC0415

    found = read_chart_values(path.name, documents)
    reported, problems = report_queues(found, policy_set, namespace)
    yield from (("ok", Problem(str(path), 0, "", line)) for line in reported)
    yield from (_line(path.parent, problem, "error") for problem in problems)


def _fine(path: Path, folder: Path, policy_set: PolicySet, beside: str = "") -> Iterator[Result]:
    """Yield advice, and that the policies are fine, with their counts and what is `beside` them."""
    own = [problem for problem in lint(policy_set) if not problem.file.startswith("(")]
    yield from (_line(folder, problem, "note") for problem in own)
    parts = policy_set.parts
    limiters = sum("/" not in source.document.file for _, source in parts.limiters.values())
    policies = sum(not source.document.file.startswith("(") for _, source in parts.policies.values())
    counts = f"policies: {policies}, limiters of your own: {limiters}, queues: {len(parts.queues)}"
    yield "ok", Problem(str(path), 0, "", f"{path} is fine ({counts}), digest {policy_set.digest}{beside}")


def _line(folder: Path, problem: Problem, level: Level) -> Result:
    return level, replace(problem, file=str(folder / problem.file))
