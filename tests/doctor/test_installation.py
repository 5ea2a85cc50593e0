"""The doctor on CRDs, controller, policies and certificates."""

from datetime import timedelta

import pytest

from certs.authority import make_authority
from certs.leaf import LEAF_LIFETIME
from certs.observation import Stored, observe
from doctor.seen import Figures, StoredPolicies, WebhookEntry
from tests.doctor.support import MADE, NOW, leader, lease, lines, observed, served

PODS = "see the pods: kubectl --namespace gpu-fraction-injector get pods"


def test_a_crd_that_is_not_served_is_named():
    [line] = lines("crds", served=frozenset({"gpuledgers"}))
    what = "the API server does not serve gpunodes of clearml-injector.io/v1alpha1"
    assert line == ("failed", f"{what} -- run helm upgrade with crds.enabled: true")


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (None, "Lease gpu-fraction-injector/fraction-injector-controller does not exist"),
        (lease(holder=""), "no controller leads"),
        (lease(ago=None), "no controller leads"),
        (lease(ago=300), "the leading controller has not renewed its Lease for 300 s"),
    ],
)
def test_without_a_leading_controller_it_fails(found, what):
    [(level, text)] = lines("controller", lease=found)
    assert (level, text.partition(" -- ")[0], PODS in text) == ("failed", what, True)


def test_a_lease_from_the_future_is_a_clock_that_is_wrong():
    [(level, text)] = lines("controller", lease=lease(ago=-300))
    what = "the leading controller renewed its Lease 300 s in the future -- set the clocks"
    assert (level, text.startswith(what)) == ("warning", True)


def test_policies_in_force_say_where_and_since_when():
    processes = (served(since=NOW.timestamp()), leader(since=NOW.timestamp() - 9))
    what = "policies new are in force everywhere (controllers: 1, webhooks: 1) since 2026-11-23T12:00:00Z"
    assert lines("policies", processes=processes) == [("ok", what)]


@pytest.mark.parametrize(
    ("processes", "what"),
    [
        ((served("old"),), "pod webhook-a does not serve the policies: it serves old"),
        ((served(None, problem="no answer: x"),), "not serve the policies: no answer: x"),
        ((leader(),), "no webhook serves them"),
    ],
)
def test_policies_that_are_not_in_force_fail(processes, what):
    [(level, text)] = lines("policies", processes=processes)
    assert (level, what in text, " -- " in text) == ("failed", True, True)


def test_a_webhook_outside_of_the_cluster_is_not_missed_among_the_pods():
    elsewhere = WebhookEntry("Fail", b"", "https://webhook.example.com/mutate")
    what = "policies new are in force everywhere (controllers: 1, webhook: outside of the cluster, not asked)"
    assert lines("policies", processes=(leader(),), webhook=elsewhere) == [("ok", what)]


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        (None, ("skipped", "no leading controller answers, which counts slices")),
        (
            Figures(gpus=35, slices=280, free=19, waiting=12),
            ("ok", "19 of 280 slices are free for new pods, on 35 GPUs; pods wait for 12 slices"),
        ),
        (
            Figures(gpus=1, slices=8, free=8),
            ("ok", "8 of 8 slices are free for new pods, on 1 GPUs; no pod waits for slices"),
        ),
        (Figures(cards=3), ("ok", "DRA drivers offer 3 cards to claims, and no node offers slices")),
        (Figures(), ("warning", "no node offers slices -- install the agent: docs/getting-started/agent.md")),
    ],
)
def test_what_is_free_and_what_waits_is_said_as_the_leader_counts_it(figures, line):
    assert lines("slices", processes=(leader(figures=figures),)) == [line]


def test_cards_alone_are_too_little_for_policies_whose_pods_get_slices():
    policies = StoredPolicies("new", of_slices=("default", "team"))
    [(level, text)] = lines("slices", processes=(leader(figures=Figures(cards=3)),), policies=policies)
    assert (level, "no node offers slices, as policy default, team needs -- " in text) == ("warning", True)


@pytest.mark.parametrize(
    ("days", "level", "what"),
    [
        (61, "ok", "the first served certificate expires in 61 days"),
        (6, "warning", "the certificate of webhook-a expires in 6 days"),
        (0, "failed", "the certificate of webhook-a has expired"),
    ],
)
def test_a_served_certificate_that_ends_soon_is_named(days, level, what):
    ends = (NOW + timedelta(days=days, hours=bool(days))).timestamp()
    [(seen_level, text)] = lines("served-certificates", processes=(served(certificate_ends=ends),))
    assert (seen_level, text.partition(" -- ")[0]) == (level, what)


@pytest.mark.parametrize(
    ("ago", "level", "what"),
    [
        (LEAF_LIFETIME - timedelta(days=3), "warning", "expires in"),
        (20 * LEAF_LIFETIME, "failed", "has expired"),
    ],
)
def test_certificates_that_nobody_renews(ago, level, what):
    found_level, text = lines("certificates", certificates=observed(NOW - ago))[0]
    assert (found_level, what in text, "fraction-injector certs status" in text) == (level, True, True)


def test_a_secret_without_a_sound_certificate_fails():
    [(level, text)] = lines("certificates", certificates=observe(Stored(None, None, None), {}, ()))
    assert level == "failed"
    assert text.startswith("Secret fraction-injector-tls holds no valid certificate")


def test_a_leaf_that_no_ca_of_the_bundle_signed_fails():
    foreign = make_authority(NOW).certificate_pem
    found = lines("certificates", certificates=observed(bundle=foreign))
    what = "no CA in the caBundle signed the leaf: API servers refuse every labelled pod with a 500"
    assert (found[0][0], found[0][1].partition(" -- ")[0]) == ("failed", what)
    both = lines("certificates", certificates=observed(bundle=foreign + MADE.certificate_pem))
    assert [level for level, _ in both] == ["ok"]


def test_a_leaf_that_is_not_valid_yet_fails():
    found = lines("certificates", certificates=observed(NOW + timedelta(hours=3)))
    assert [level for level, _ in found] == ["failed", "failed"]
    assert found[0][1].startswith("the leaf is not valid before 2026-11-23T14:00:00Z -- compare the clocks")
    assert found[1][1].startswith("the CA is not valid before ")
