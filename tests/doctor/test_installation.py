"""The doctor on CRDs, controller, policies and certificates."""

from datetime import timedelta

import pytest

from doctor.seen import Lease, NotRead
from tests.doctor.support import NOW, in_force, lines, observed, served

PODS = "see the pods: kubectl --namespace gpu-fraction-injector get pods"


def lease(holder="controller-a", ago=1, **more):
    renewed = None if ago is None else NOW - timedelta(seconds=ago)
    return Lease(holder=holder, renewed=renewed, seconds=7, **more)


@pytest.mark.parametrize("missing", ["gpunodes", "gpuledgers"])
def test_a_crd_that_is_not_served_is_named(missing):
    [line] = lines("crds", served=frozenset({"gpunodes", "gpuledgers"} - {missing}))
    what = f"the API server does not serve {missing} of clearml-injector.io/v1alpha1"
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
    assert (level, text.partition(" -- ")[0]) == ("failed", what)
    assert PODS in text


def test_a_lease_of_a_clock_some_seconds_off_is_no_failure():
    assert [level for level, _ in lines("controller", lease=lease(ago=30))] == ["ok"]
    assert [level for level, _ in lines("controller", lease=lease(ago=-30))] == ["ok"]


def test_a_leader_that_should_not_lead_is_a_warning():
    [line] = lines("controller", lease=lease(yields="pods are not listed"))
    assert line == ("warning", f"the leading controller should not lead: pods are not listed -- {PODS}")


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (
            in_force(None, problem="default.yaml:3: limitr: unknown key"),
            "the policies are broken: default.yaml:3",
        ),
        (in_force("new", served("old")), "pod webhook-a does not serve the policies: it serves old"),
        (in_force("new", served(None, problem="no answer: x")), "not serve the policies: no answer: x"),
        (
            in_force("new", reported={"old": 1, "new": 1}),
            "webhooks serve other policies than the ConfigMap's: old",
        ),
    ],
)
def test_policies_that_are_not_in_force_fail(found, what):
    [(level, text)] = lines("policies", policies=found)
    assert level == "failed"
    assert what in text
    assert " -- " in text


def test_policies_without_any_webhook_fail():
    from describe.policy_status import PolicyStatus, ServedBy  # noqa: PLC0415 next to its use

    alone = PolicyStatus("n/p", "new", None, (ServedBy("controller-a", "controller", "new"),), None)
    assert lines("policies", policies=alone)[0][1].startswith("no webhook serves the policies")


def test_certificates_say_when_they_end():
    [(level, text)] = lines("certificates")
    assert level == "ok"
    assert text.startswith("certificates: the leaf expires in ")
    assert "the CA expires in " in text


@pytest.mark.parametrize(
    ("made", "level", "what"), [(400, "warning", "expires in"), (5000, "failed", "has expired")]
)
def test_certificates_that_nobody_renews(made, level, what):
    from certs.leaf import LEAF_LIFETIME  # noqa: PLC0415 next to its use

    ago = LEAF_LIFETIME - timedelta(days=3) if level == "warning" else timedelta(days=made)
    found = lines("certificates", certificates=observed(NOW - ago))
    assert found[0][0] == level
    assert what in found[0][1]
    assert "fraction-injector certs status" in found[0][1]


def test_a_secret_without_a_sound_certificate_fails():
    from certs.observation import Stored, observe  # noqa: PLC0415 next to its use

    [(level, text)] = lines("certificates", certificates=observe(Stored(None, None, None), {}, ()))
    assert level == "failed"
    assert text.startswith("Secret fraction-injector-tls holds no valid certificate")


def test_certificates_elsewhere_are_skipped():
    assert lines("certificates", certificates=NotRead("elsewhere")) == [
        ("skipped", "certificates: elsewhere")
    ]
