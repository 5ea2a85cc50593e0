"""Without the controller, pods get the claims whose templates it made lately."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from ledger.placement_request import Placement, Quota
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.controller.claims.test_claim_templates import CLAIMED
from tests.ledger.cluster import changed, request_of
from tests.ledger.test_instances import A100_80, mig_node
from tests.webhook.placing.test_fallback import clock, report, state
from webhook.admission.denial import Reason
from webhook.placing import known_claims
from webhook.placing.fallback import Fallback
from webhook.placing.known_claims import KNOWN_SECONDS
from webhook.placing.placer import Unanswered

__all__ = ["clock"]

MADE = Placement((), 0, (), cards=(40960, 81920))
MEMORY = Fraction.of_memory(5120, 8)


def asking(fraction=MEMORY, driver=DRIVER, *, any_gpu=False, **more):
    found = request_of(fraction, mode=CLAIMED, writes_limits=False, reservation="r", **more)
    return changed(found, driver=driver, any_gpu=any_gpu)


@pytest.fixture
def fallback(clock):
    made = Fallback(lambda: clock[0])
    made.claims.note(asking(), MADE)
    return made


@pytest.mark.parametrize(
    "other",
    [
        asking(Fraction.of_memory(5121, 8)),
        asking(driver=NVIDIA_DRIVER),
        asking(any_gpu=True),
        asking(namespace="other"),
        asking(kinds=GpuKinds(("A100",))),
    ],
    ids=["amount", "driver", "any GPU", "namespace", "kind of GPU"],
)
def test_a_kind_that_is_not_known_is_denied(fallback, other):
    assert fallback.place(other).reason is Reason.NO_CONTROLLER


def test_after_half_an_hour_the_template_may_be_gone(fallback, clock):
    clock[0] = KNOWN_SECONDS
    assert isinstance(fallback.place(asking()), Unanswered)


@pytest.mark.parametrize("order", [("mig", CLAIMED), (CLAIMED, "mig")])
def test_a_pod_that_may_get_an_instance_gets_it_if_no_claim_is_known(fallback, order):
    report(fallback, state(mig_node("m", A100_80, p1g_10gb=1)))
    known, other = asking(prefer=order), asking(Fraction(1, 8), prefer=order)
    assert fallback.place(known).instance is None
    placed = fallback.place(other)
    assert (placed.degraded, placed.instance.profile.name) == (True, "1g.10gb")
    assert fallback.place(asking(prefer=order, existing=placed)).instance == placed.instance
    fallback.claims.note(other, placed)
    fallback.remove_node("m")
    assert fallback.place(other).reason is Reason.NO_CONTROLLER
    assert fallback._ledger.reservations == 0


def test_a_known_claim_waits_for_the_quota_too(fallback):
    waits = asking(quotas=(Quota("queue", "train", slices=8),), waits_when_degraded=True)
    assert [fallback.place(each).waits_for_quota for each in (asking(), waits)] == [False, True]


def test_of_an_instance_by_name_the_denial_speaks_of_instances(fallback):
    report(fallback, state(mig_node("m", A100_80, p1g_10gb=1)))
    named = asking(prefer=("mig", CLAIMED), resource="nvidia.com/mig-7g.80gb")
    assert "nvidia.com/mig-7g.80gb" in fallback.place(named).why


def test_the_kinds_of_one_namespace_displace_no_others(fallback, monkeypatch):
    monkeypatch.setattr(known_claims, "MAX_OF_NAMESPACE", 2)
    known = [asking(Fraction.of_memory(mib, 8), namespace="b") for mib in (1, 2, 3)]
    for each in known:
        fallback.claims.note(each, MADE)
    assert [fallback.claims.find(each) is not None for each in known] == [False, True, True]
    assert fallback.claims.find(asking()) is not None
