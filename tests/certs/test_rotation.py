"""The way of a CA, step by step, through a small cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest

from certs.authority import make_authority
from certs.leaf import make_leaf, service_names
from certs.observation import SecretContent
from certs.rotation import IssueLeaf, Phase, PromoteAuthority, Wait, phase
from certs.values import KeyPair
from kube.names import INJECTED_AT_ANNOTATION, SEEN_AT_ANNOTATION
from tests.certs.cluster import DAY, NAMES, START, Cluster, Endpoint, certificates, digests, issuers, leader

FIRST_INSTALL = [
    "StoreNewAuthority",
    "StoreTrust",
    "WriteBundle",
    "StoreTrust",
    "PromoteAuthority",
    "IssueLeaf",
]
INJECTION = ["StoreNewAuthority", "StoreTrust", "WriteBundle", "StoreTrust"]
RETIREMENT = ["DropPrevious", "StoreTrust", "WriteBundle"]


@pytest.fixture
def cluster() -> Cluster:
    """Installed, in steady state, with two webhook processes."""
    cluster = Cluster(endpoints={"a": Endpoint(), "b": Endpoint()})
    assert cluster.walk() == FIRST_INSTALL
    cluster.refresh_endpoints()
    return cluster


def edit(secret, **changes) -> None:
    """A hand edits a Secret: None takes the key away."""
    data = {**secret.value.data, **{key.replace("_", "."): value for key, value in changes.items()}}
    kept = {key: value for key, value in data.items() if value is not None}
    secret.replace(SecretContent(kept, secret.value.annotations), secret.version)


def test_a_first_install_serves_at_once():
    cluster = Cluster(endpoints={"a": Endpoint()})
    assert phase(cluster.observation()) == Phase.STORED
    assert cluster.walk() == FIRST_INSTALL
    cluster.refresh_endpoints()
    assert len(cluster.served()) == 1
    assert phase(cluster.observation()) == Phase.STEADY
    assert cluster.step() == Wait(
        START - timedelta(hours=1) + (30 * DAY + timedelta(hours=1)) * 2 / 3, "certificates are fresh"
    )


def test_without_a_webhook_configuration_the_ca_waits():
    cluster = Cluster()
    cluster.bundle.value = None
    assert cluster.walk() == ["StoreNewAuthority", "StoreTrust"]
    assert cluster.step() == Wait(START + timedelta(seconds=10), "the webhook configuration is missing")
    cluster.bundle.value = b""
    assert cluster.walk() == FIRST_INSTALL[2:]


def test_a_leaf_is_renewed_when_two_thirds_of_its_life_are_over(cluster):
    before = cluster.tls.value.data["tls.crt"]
    cluster.now += 20 * DAY - timedelta(hours=1)
    assert cluster.walk() == []
    cluster.now += timedelta(hours=1)
    assert cluster.walk() == ["IssueLeaf"]
    assert cluster.tls.value.data["tls.crt"] != before
    assert cluster.walk() == []


def test_a_ca_goes_through_all_phases(cluster):
    old, old_key = digests(cluster.bundle.value), cluster.authorities.value.data["ca.key"]
    cluster.now += 244 * DAY
    phases = [phase(cluster.observation())]
    assert cluster.step().__class__.__name__ == "IssueLeaf"
    for name in INJECTION:
        assert cluster.step().__class__.__name__ == name
        phases.append(phase(cluster.observation()))
    settled = cluster.now + timedelta(seconds=60)
    assert cluster.step() == Wait(settled, "API servers learn the new caBundle")
    assert digests(cluster.bundle.value) > old
    assert cluster.authorities.value.data["ca.key"] == old_key
    cluster.now = settled
    assert cluster.step().__class__.__name__ == "PromoteAuthority"
    assert old_key not in cluster.authorities.value.data.values()
    phases.append(phase(cluster.observation()))
    assert cluster.step().__class__.__name__ == "IssueLeaf"
    phases.append(phase(cluster.observation()))
    assert cluster.step().why == "not every endpoint serves a leaf of the current CA yet"
    cluster.refresh_endpoints()
    assert cluster.walk() == ["MarkSeen"]
    phases.append(phase(cluster.observation()))
    assert cluster.step() == Wait(settled + DAY, "the old CA is kept for stragglers")
    cluster.now += DAY
    assert cluster.walk() == RETIREMENT
    assert not digests(cluster.bundle.value) & old
    assert [*phases, phase(cluster.observation())] == [
        Phase.STEADY,
        Phase.STORED,
        Phase.STORED,
        Phase.INJECTED,
        Phase.SETTLING,
        Phase.ISSUING,
        Phase.SPREADING,
        Phase.RETIRING,
        Phase.STEADY,
    ]


@pytest.mark.parametrize("straggler", ["behind", "unreachable"])
def test_one_straggler_keeps_the_old_ca(cluster, straggler):
    cluster.now += 244 * DAY
    cluster.walk()
    cluster.now += timedelta(minutes=1)
    cluster.walk()
    cluster.endpoints["a"].refresh(cluster.tls.value, cluster.now)
    if straggler == "unreachable":
        cluster.endpoints["b"].refresh(cluster.tls.value, cluster.now)
        cluster.endpoints["b"].reachable = False
    cluster.now += 3 * DAY
    assert cluster.walk() == []
    assert len(certificates(cluster.bundle.value)) == 2
    assert phase(cluster.observation()) == Phase.SPREADING


def test_trouble_with_a_new_ca_does_not_let_the_leaf_run_out(cluster):
    cluster.now += 244 * DAY
    assert [type(cluster.step()).__name__ for _ in range(3)] == [
        "IssueLeaf",
        "StoreNewAuthority",
        "StoreTrust",
    ]
    cluster.now += 21 * DAY
    assert [type(cluster.step()).__name__ for _ in range(2)] == ["IssueLeaf", "WriteBundle"]


def test_in_the_last_minutes_of_a_ca_its_leaf_is_not_renewed_over_and_over(cluster):
    cluster.now += 365 * DAY - timedelta(minutes=10)
    assert cluster.walk() == ["IssueLeaf", *INJECTION]


def pair_of(authority, names=NAMES):
    leaf = make_leaf(authority, names, START)
    return {"tls_crt": leaf.certificate_pem, "tls_key": leaf.key_pem}


FOREIGN = make_authority(START)


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        pytest.param({"tls_key": None}, ["IssueLeaf"], id="no key"),
        pytest.param({"tls_crt": b"-----BEGIN CERTIFICATE-----\nhalf"}, ["IssueLeaf"], id="torn"),
        pytest.param({"tls_key": FOREIGN.key_pem}, ["IssueLeaf"], id="another key"),
        pytest.param({"tls_crt": None, "tls_key": None}, ["IssueLeaf"], id="no pair"),
        pytest.param(
            {**pair_of(FOREIGN), "ca_crt": FOREIGN.certificate_pem},
            ["IssueLeaf", "StoreTrust"],
            id="a foreign pair with its own CA, which never gets into the caBundle",
        ),
    ],
)
def test_a_pair_that_is_not_ours_is_made_again(cluster, changes, done):
    bundle = cluster.bundle.value
    edit(cluster.tls, **changes)
    cluster.refresh_endpoints()
    assert cluster.walk() == done
    assert cluster.bundle.value == bundle


def test_a_pair_for_other_names_is_replaced(cluster):
    data = cluster.authorities.value.data
    edit(cluster.tls, **pair_of(KeyPair(data["ca.crt"], data["ca.key"]), service_names("other", "gpu")))
    assert cluster.walk() == ["IssueLeaf"]


@pytest.mark.parametrize(
    ("name", "change", "done"),
    [
        ("tls", lambda _: None, ["StoreTrust", "StoreTrust", "IssueLeaf"]),
        ("bundle", lambda _: b"", ["WriteBundle"]),
        ("bundle", lambda pem: pem + FOREIGN.certificate_pem, ["WriteBundle"]),
    ],
    ids=["the Secret of the pair deleted", "the caBundle emptied", "a stranger in the caBundle"],
)
def test_what_a_hand_took_away_or_added_is_set_right_without_a_new_ca(cluster, name, change, done):
    bundle, stored = cluster.bundle.value, getattr(cluster, name)
    stored.replace(change(stored.value), stored.version)
    assert cluster.walk() == done
    assert cluster.bundle.value == bundle


@pytest.mark.parametrize(
    "lose",
    [
        lambda authorities: edit(authorities, ca_key=None),
        lambda authorities: edit(authorities, ca_key=b"-----BEGIN PRIVATE KEY-----\nhalf"),
        lambda authorities: authorities.replace(None, authorities.version),
    ],
    ids=["its key", "half of its key", "its Secret"],
)
def test_a_ca_that_lost_a_part_is_followed_by_a_new_one_and_stays_trusted(cluster, lose):
    old = digests(cluster.bundle.value)
    lose(cluster.authorities)
    assert cluster.walk() == INJECTION
    assert digests(cluster.bundle.value) > old


@pytest.mark.parametrize(
    ("annotation", "secret"),
    [(INJECTED_AT_ANNOTATION, "tls"), (SEEN_AT_ANNOTATION, "authorities")],
    ids=["injected", "seen"],
)
@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-20T12:00:00", "2099-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_is_taken_again(cluster, annotation, secret, text):
    cluster.authorities.replace(None, cluster.authorities.version)
    cluster.walk()
    cluster.now += timedelta(minutes=1)
    cluster.walk()
    cluster.refresh_endpoints()
    cluster.walk()
    stored = getattr(cluster, secret)
    stored.value = replace(stored.value, annotations={**stored.value.annotations, annotation: text})
    assert len(cluster.walk()) == 1
    assert stored.value.annotations[annotation] == "2026-11-20T12:01:00Z"


def test_what_others_keep_in_the_secrets_stays(cluster):
    stored = cluster.tls
    stored.value = SecretContent(
        {**stored.value.data, "note": b"x"}, {**stored.value.annotations, "helm": "y"}
    )
    cluster.now += 21 * DAY
    assert cluster.walk() == ["IssueLeaf"]
    assert cluster.tls.value.data["note"] == b"x"
    assert cluster.tls.value.annotations["helm"] == "y"


def test_a_leader_that_comes_back_late_cannot_store_a_leaf_of_a_dropped_ca(cluster):
    """It decided to issue, slept, and meanwhile its CA was replaced by hand and left the caBundle."""
    cluster.authorities.replace(None, cluster.authorities.version)
    cluster.walk()
    cluster.now += timedelta(minutes=1)
    assert cluster.step() == PromoteAuthority()
    late = leader(cluster)
    for _ in range(5):
        assert next(late) is None
    foreign = make_authority(cluster.now)
    edit(cluster.authorities, ca_crt=foreign.certificate_pem, ca_key=foreign.key_pem)
    while cluster.bundle.version == 2:
        cluster.step()
    assert next(late) == IssueLeaf()
    cluster.refresh_endpoints()
    bundle = certificates(cluster.bundle.value)
    assert all(issuers(leaf, bundle) for leaf in cluster.served().values())


def test_an_unreachable_endpoint_keeps_its_ca_though_the_ca_secret_forgot_it(cluster):
    old = digests(cluster.bundle.value)
    foreign = make_authority(START)
    edit(cluster.authorities, ca_crt=foreign.certificate_pem, ca_key=foreign.key_pem)
    cluster.endpoints["b"].reachable = False
    cluster.walk()
    cluster.now += timedelta(minutes=1)
    assert cluster.walk() == ["IssueLeaf"]
    cluster.endpoints["a"].refresh(cluster.tls.value, cluster.now)
    assert cluster.walk() == []
    assert digests(cluster.bundle.value) > old
    cluster.tls.replace(None, cluster.tls.version)
    cluster.walk()
    assert digests(cluster.bundle.value) > old
    cluster.endpoints["b"].reachable = True
    cluster.now += timedelta(minutes=1)
    cluster.walk()
    cluster.refresh_endpoints()
    assert cluster.walk() == ["StoreTrust", "WriteBundle"]
    assert not digests(cluster.bundle.value) & old
