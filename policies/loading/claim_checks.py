"""Checks of policies whose pods get ResourceClaims, which the scheduler places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modes.claim_name import has_name
from modes.fraction import Fraction
from modes.units import EIGHTHS
from policies.loading.build import mode_of, resource_of
from policies.loading.sources import Source
from policies.model.problems import Problem
from policies.model.schema import Policy, QuotaAmounts

_RESERVE = "the DRA driver leaves its own reserve out of what it offers: leave it out"
_NOT_EIGHTHS = "claims count as eighths of a card, and slicesPerGpu is {}: use memoryMiB, or slicesPerGpu 8"


def claim_problems(policy: Policy, source: Source) -> Iterator[Problem]:
    """Yield settings that the policy's mode cannot keep, because the scheduler places its pods."""
    resources, mode = policy.resources, mode_of(policy)
    if not mode.is_claimed:
        rule = f"mode {mode.name} has no DRA driver: leave it out, or change the mode"
        if resources.driver is not None:
            yield source.problem(rule, "resources", "driver")
        return
    yield from _driver_problems(policy, source)
    yield from long_fraction_problems(policy, policy.fractions or (), source)
    for path, is_set, rule in (
        (("place",), policy.place != "pack", "the scheduler chooses node and card: leave it out"),
        (("sameModel",), policy.same_model, "the scheduler chooses the card: use the annotation gpu-model"),
        (
            ("compute",),
            policy.compute != "none",
            "a claim is for memory, and nothing limits compute: leave it out",
        ),
        (("memory", "reserveMiB"), policy.memory.reserve_mib, _RESERVE),
    ):
        if is_set:
            yield source.problem(rule, *path)
    for scope, limits in (("namespaces", policy.quotas.namespaces), ("queues", policy.quotas.queues)):
        for name, amounts in limits.items():
            if (problem := slices_problem(policy, amounts)) is not None:
                yield source.problem(problem, "quotas", scope, name, "slices")


def long_fraction_problems(policy: Policy, fractions: Iterable[str], source: Source) -> Iterator[Problem]:
    """Yield fractions that no claim of a policy's pods can name, so that no quota could count it."""
    for text in fractions if mode_of(policy).is_claimed else ():
        try:
            fraction = Fraction.rounded_up(text, policy.slices_per_gpu)
        except ValueError:
            continue
        if not has_name(fraction):
            yield source.problem(
                "a claim has no room for so many digits: use at most 8 decimals", "fractions", text
            )


def _driver_problems(policy: Policy, source: Source) -> Iterator[Problem]:
    """Yield settings that do not suit the driver."""
    resources = policy.resources
    if policy.limits.source == "agent" and not mode_of(policy).limits_itself(resource_of(policy)):
        rule = f"{resource_of(policy)} limits no memory, and the agent does not see its claims: leave it out"
        yield source.problem(rule, "limits", "from")
    if resources.driver is not None and resources.name is not None:
        yield source.problem("pods get a claim and no resource: leave it out", "resources", "name")


def slices_problem(policy: Policy, amounts: QuotaAmounts | None) -> str | None:
    """Return why a quota cannot count the claims of a policy's pods in slices; None if it can, or does not.

    A claim has no slices: it counts as eighths, which must mean the same as the policy's slices.
    """
    if amounts is None or amounts.slices is None or policy.slices_per_gpu == EIGHTHS:
        return None
    return _NOT_EIGHTHS.format(policy.slices_per_gpu) if mode_of(policy).is_claimed else None
