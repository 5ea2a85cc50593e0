"""The checks, in the order in which they are printed, and the code that runs them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from doctor import admission, agents, installation, ledgers, limits
from doctor.finding import Diagnosis, ReportLine, lines_of
from doctor.seen import NotReadError, Seen


@dataclass(frozen=True, slots=True)
class Check:
    """One check. It yields problems, or `ok` with more detail than `good`."""

    name: str
    judge: Callable[[Seen], Iterable[Diagnosis]]
    good: str
    """Printed if the check yields nothing; empty prints nothing."""
    in_brief: bool = False
    """Whether it tells by itself that an installation works, without Secrets."""
    without_chart: bool = False
    """Whether it tells something where nothing is installed."""


CHECKS: Sequence[Check] = (
    Check("shape", agents.shape, "no node has labels of NVIDIA's GPU operator", without_chart=True),
    Check("nodes", agents.nodes, "nodes with GPUs are there", without_chart=True),
    Check("usable", agents.usable, "nodes with GPUs are ready", without_chart=True),
    Check("installed", installation.installed, "", in_brief=True, without_chart=True),
    Check("agents", agents.agent_set, "the agent's DaemonSet has all its pods", in_brief=True),
    Check("agent-pods", agents.agent_pods, "no pod of the agent waits"),
    Check("paused", agents.paused, "no agent is paused by the GPU operator"),
    Check("serving", agents.serving, "every agent is registered with its kubelet", in_brief=True),
    Check("taints", agents.taints, "no node is held for its agent", in_brief=True, without_chart=True),
    Check("left", agents.left, "no node with GPUs lost the agent's label"),
    Check("cards", agents.cards, "every GPU that agents report is healthy"),
    Check("unlimited", limits.unlimited, "no program runs without its limiter, where agents look"),
    Check("driver-limits", limits.driver_limits, "the driver limits shares where it has to", in_brief=True),
    Check("mig-profiles", limits.mig_profiles, "the MIG profiles of every divided card are known"),
    Check("mig-state", limits.mig_state, "no card is being divided"),
    Check("fractions", ledgers.lacking, "every node with GPUs can run fractions"),
    Check("crds", installation.crds, "the API server serves GpuLedgers and GpuNodes"),
    Check("controller", installation.controller, "", in_brief=True),
    Check("ledgers", ledgers.published, "the controller publishes every node's ledger"),
    Check("slices", installation.slices, "", in_brief=True),
    Check("policies", installation.policies, "", in_brief=True),
    Check("certificates", installation.certificates, ""),
    Check("served-certificates", installation.served_certificates, "", in_brief=True),
    Check("webhook", admission.webhook, "the webhook is registered with a CA", in_brief=True),
    Check("endpoints", admission.endpoints, "the webhook takes requests", in_brief=True),
    Check("second-lock", admission.second_lock, "the second lock is there and fits this API server"),
    Check("bindings", admission.bindings, "every policy of the second lock is bound"),
    Check("uninjected", admission.uninjected, "every pod that asked for a share was injected"),
    Check("trial", admission.trial, "", in_brief=True, without_chart=True),
)


def run_checks(seen: Seen, checks: Iterable[Check] = CHECKS) -> list[ReportLine]:
    """Return the lines of all checks; without an installation, only of those that it does not concern."""
    if installation.is_missing(seen):
        checks = [check for check in checks if check.without_chart]
    return [line for check in checks for line in lines_of(check.name, _run(check, seen))]


def _run(check: Check, seen: Seen) -> list[Diagnosis]:
    found: list[Diagnosis] = []
    try:
        for each in check.judge(seen):
            found.append(each)  # noqa: PERF402 what was found before something was not read counts
    except NotReadError as error:
        return [*found, Diagnosis(error.level, f"{check.name}: {error}", error.advice)]
    return found or ([Diagnosis("ok", check.good)] if check.good else [])
