"""A sound installation, of which each test breaks one thing."""

import dataclasses
from datetime import UTC, datetime, timedelta

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.observation import SecretContent, Stored, observe
from controller.watch.gpu_node import UnlimitedContainers
from controller.watch.resources import SeenNode
from doctor.checks import CHECKS, run_checks
from doctor.seen import (
    AgentPod,
    AgentSays,
    AgentSet,
    Figures,
    LeaseSpec,
    LockBinding,
    LockPolicy,
    NotRead,
    Read,
    ReportedCard,
    Seen,
    ServingPod,
    StoredPolicies,
    WebhookEntry,
)
from modes.facts import NodeFact

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NAME = "fraction-injector"
NAMESPACE = "gpu-fraction-injector"
LOCK = ("device-annotations", "injected", "unchanged")
MADE = make_authority(NOW)
ENDS = (NOW + timedelta(days=61, hours=1)).timestamp()


def observed(now=NOW, bundle=None):
    """What certificates made at this moment look like."""
    made = MADE if now == NOW else make_authority(now)
    leaf = make_leaf(made, ["localhost"], now)
    tls = {"ca.crt": made.certificate_pem, "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
    authority = {"ca.crt": made.certificate_pem, "ca.key": made.key_pem}
    stored = Stored(SecretContent(tls, {}), bundle or made.certificate_pem, SecretContent(authority, {}))
    return observe(stored, {}, ())


def served(digest="new", **more):
    return ServingPod("webhook-a", "webhook", digest, **more)


FIGURES = Figures(gpus=35, slices=280, free=19, waiting=12)


def leader(*, figures=FIGURES, **more):
    return ServingPod("controller-a", "controller", "new", figures=figures, **more)


def node(name="gpu-1", *, labels=None, taints=None, **fact):
    fact = {"gpus": ((0, 8),), "slices_per_gpu": 8, "gpu_mib": 81920, **fact}
    more = {"taints": taints} if taints is not None else {}
    return SeenNode(NodeFact(name=name, labels=labels or {}, **fact), "uid", boot_id="boot-1", **more)


def says(  # noqa: PLR0913 each is what a report has
    *, boot="boot-1", unhealthy=(), indices=(0,), mib=81920, has_mig=False, unlimited=(), count=None, **more
):
    """A report on cards of which some are unhealthy, and on programs without their limiter."""
    whys = dict(unhealthy)
    same = {"mig": has_mig, "memory_mib": mib}
    cards = [ReportedCard(each, each not in whys, whys.get(each, ""), **same) for each in indices]
    if unlimited is not None:
        unlimited = UnlimitedContainers(len(unlimited) if count is None else count, tuple(unlimited))
    return AgentSays(
        **{"registered": True, "boot_id": boot, "gpus": tuple(cards), "unlimited": unlimited, **more}
    )


def conditions(**changed):
    from controller.publish.gpu_ledger import Condition  # noqa: PLC0415 next to its use

    sound = {"TakesFractions": ("True", "Sliced", ""), "OverCommitted": ("False", "WithinCapacity", "")}
    return tuple(Condition(kind, *said) for kind, said in {**sound, **changed}.items())


def lease(holder="controller-a", ago=1):
    """A Lease that was renewed so many seconds ago; None for never."""
    renewed = None if ago is None else NOW - timedelta(seconds=ago)
    return LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=7)


def policy(part, *warnings):
    return LockPolicy(f"{NAME}-{part}", warnings)


def binding(part, *, actions=("Deny",), account=f"{NAME}-second-lock"):
    return LockBinding(f"{NAME}-{part}", f"{NAME}-{part}", tuple(actions), account)


SOUND = Seen(
    at=NOW,
    namespace=NAMESPACE,
    name=NAME,
    served=Read(frozenset({"gpunodes", "gpuledgers"})),
    lease=Read(lease()),
    policies=Read(StoredPolicies("new")),
    processes=Read((served(certificate_ends=ENDS), leader())),
    certificates=Read(observed()),
    webhook=Read(WebhookEntry("Fail", MADE.certificate_pem)),
    endpoints=Read(("10.0.0.1",)),
    lock_policies=Read(tuple(map(policy, LOCK))),
    lock_bindings=Read(tuple(map(binding, LOCK))),
    accounts=Read(frozenset({f"{NAME}-second-lock"})),
    agents=Read(AgentSet(1, 1)),
    agent_pods=Read((AgentPod("agent-a", "gpu-1", is_ready=True),)),
    agent_logs=Read({}),
    events=Read({}),
    nodes=Read((node(), SeenNode(NodeFact(name="cpu-1"), "uid"))),
    reports=Read({"gpu-1": says()}),
    ledgers=Read({"gpu-1": conditions()}),
    uninjected=Read(()),
)


def seen(**changed):
    """The sound installation with other things: values are wrapped unless they say why they were not read."""
    wrapped = {
        key: value if key == "node" or isinstance(value, NotRead) else Read(value)
        for key, value in changed.items()
    }
    return dataclasses.replace(SOUND, **wrapped)


def lines(check, **changed):
    """(level, text) of each line of one check."""
    [found] = [each for each in CHECKS if each.name == check]
    return [(line.level, line.text) for line in run_checks(seen(**changed), [found])]
