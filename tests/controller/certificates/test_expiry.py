"""Warnings of certificates that nobody renews."""

from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.observation import SecretContent, Stored, observe
from controller.certificates.expiry import warnings

NAMES = ("webhook.own.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def seen(issued=START):
    authority = make_authority(START)
    leaf = make_leaf(authority, NAMES, issued)
    tls = {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem, "ca.crt": authority.certificate_pem}
    own = {"ca.crt": authority.certificate_pem, "ca.key": authority.key_pem}
    stored = Stored(SecretContent(tls, {}), authority.certificate_pem, SecretContent(own, {}))
    return observe(stored, {}, NAMES)


@pytest.mark.parametrize(("day", "secrets"), [(0, []), (20, []), (22, ["x-tls"]), (29, ["x-tls"])])
def test_a_leaf_is_warned_of_once_its_renewal_is_overdue(day, secrets):
    assert [warning.secret for warning in warnings(seen(), "x", START + day * DAY)] == secrets


@pytest.mark.parametrize(("day", "secrets"), [(300, []), (350, []), (352, ["x-ca"])])
def test_a_ca_is_warned_of_in_its_last_14_days(day, secrets):
    now = START + day * DAY
    assert [warning.secret for warning in warnings(seen(issued=now), "x", now)] == secrets


def test_the_event_is_one_a_day_and_says_what_to_look_at():
    now = START + 22 * DAY
    [warning] = warnings(seen(), "x", now)
    first, later, next_day = (warning.event("own", moment) for moment in (now, now + DAY / 4, now + DAY))
    assert first["metadata"]["name"] == later["metadata"]["name"] != next_day["metadata"]["name"]
    assert first["message"] == (
        "the leaf expires in 8 days and was not renewed: see the controller's log, and certs status"
    )
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "namespace": "own",
        "name": "x-tls",
    }
