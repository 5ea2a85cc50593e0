"""Claims under a quota: decided on a complete ledger, and given back if the pod cannot be admitted."""

import pytest

from cluster.kube_client import ApiError
from controller import placement_api
from ledger.placement_request import OverQuota, Quota
from modes.fraction import Fraction
from tests.controller.claims.test_claim_templates import Api
from tests.controller.test_placement_api import claim_of, claims, with_cards
from tests.controller.watch.test_ledger_store import ready_state
from tests.ledger.cluster import changed

HALF = Fraction(4, 8)
EIGHT = Quota("namespace", "default", slices=8)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine may take longer than a webhook waits for an answer."""
    monkeypatch.setattr(placement_api, "CLAIM_SECONDS", 60.0)


def under_quota(reservation, fraction=HALF):
    return changed(claim_of(fraction, reservation), quotas=(EIGHT,))


def test_pods_of_one_batch_do_not_pass_their_quota_together():
    state = with_cards()
    asks = [under_quota(f"r{number}") for number in range(5)]
    found = claims(state, *asks, api_server=Api())
    assert [answered.placement is not None for answered in found] == [True, True, False, False, False]
    assert found[2].over_quota == OverQuota(EIGHT, 8, 4, 8, "slices")
    assert state.ledger.reservations == 2


def test_a_pod_whose_template_cannot_be_made_is_not_counted():
    state, server = with_cards(), Api()
    server.error = ApiError(403, "no")
    [answered] = claims(state, under_quota("r"), api_server=server)
    assert "may not make the claim's template" in answered.refused
    assert state.ledger.reservations == state.ledger.used_of(EIGHT).slices == 0


def test_under_a_quota_a_claim_waits_for_the_list_of_cards():
    state, _ = ready_state("a")
    whole = under_quota("r", Fraction(8, 8))
    [answered] = claims(state, whole, api_server=Api())
    assert "has not listed the ResourceSlices yet" in answered.pending
    [answered] = claims(state, claim_of(Fraction(8, 8)), api_server=Api())
    assert answered.placement is not None, "without a quota nobody has to be counted"
    state.offers_listed.set()
    [answered] = claims(state, whole, api_server=Api())
    assert answered.placement is not None


def test_a_claim_without_a_driver_is_refused_and_not_placed_without_a_template():
    whole = changed(claim_of(Fraction(8, 8)), driver=None)
    [answered] = claims(with_cards(), whole, api_server=Api())
    assert "names no driver" in (answered.refused or "")
