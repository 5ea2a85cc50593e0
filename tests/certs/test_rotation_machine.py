"""The rotation under crashes, two leaders, clock jumps and careless hands: invariants and convergence."""

from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.observation import SecretContent
from certs.pem import fingerprint
from certs.rotation import Phase, Wait, phase
from tests.certs.cluster import DAY, NAMES, Cluster, Endpoint, certificates, digests, issuers, leader
from tests.effort import examples

LEADERS = st.sampled_from(["one", "two"])
SECRETS = st.sampled_from(["tls", "authorities"])
ENDPOINTS = st.sampled_from(["a", "b", "c"])
NORMAL_TIME = st.sampled_from([timedelta(seconds=30), timedelta(minutes=2), DAY, 21 * DAY])
JUMPS = st.sampled_from([400 * DAY, timedelta(hours=-1), -400 * DAY])
KEYS = {
    "tls": ["tls.crt", "tls.key", "ca.crt", "injected-ca"],
    "authorities": ["ca.crt", "ca.key", "next.crt", "next.key", "previous.crt"],
}


def no_ca_is_known_to_its_secret_alone(machine):
    """While the caBundle is empty by hand, a lost Secret could take the only copy of a CA with it."""
    return not machine.emptied_by_hand


class Rotation(RuleBasedStateMachine):
    """Two leaders take single steps between everything else that happens to the cluster."""

    def __init__(self):
        super().__init__()
        self.cluster = Cluster(endpoints={"a": Endpoint(), "b": Endpoint()})
        self.rounds = {}
        self.emptied_by_hand = False

    @rule(name=LEADERS, steps=st.integers(1, 12))
    def a_leader_goes_on(self, name, steps):
        for _ in range(steps):
            round_ = self.rounds.setdefault(name, leader(self.cluster))
            before = self.cluster.tls.version, self.cluster.bundle.version
            if next(round_, self) is self:
                del self.rounds[name]
            self.check_what_was_written(*before)

    def check_what_was_written(self, tls_version, bundle_version):
        """Of our own writes, not of what hands wrote: a bundle is never empty, a leaf is good for its CA."""
        cluster = self.cluster
        if cluster.bundle.version != bundle_version:
            assert certificates(cluster.bundle.value)
            self.emptied_by_hand = False
        if cluster.tls.version != tls_version and (leaf := cluster.observation().tls.leaf):
            (ca,) = [ca for ca in self.known() if fingerprint(ca) == leaf.issuer_sha256]
            assert ca.not_valid_before_utc <= leaf.not_before
            assert leaf.not_after <= ca.not_valid_after_utc

    def known(self):
        secrets = (self.cluster.tls.value, self.cluster.authorities.value)
        pems = [self.cluster.bundle.value, *(pem for s in secrets if s for pem in s.data.values())]
        unique = {fingerprint(ca): ca for pem in pems for ca in _readable(pem)}
        return list(unique.values())

    @rule(rounds=st.integers(1, 12), endpoints_read=st.booleans())
    def a_leader_works_undisturbed(self, rounds, endpoints_read):
        """Far enough to bring a rotation from one phase to another; waits are cut to two minutes."""
        for _ in range(rounds):
            before = self.cluster.tls.version, self.cluster.bundle.version
            action = self.cluster.step()
            self.check_what_was_written(*before)
            if endpoints_read:
                self.cluster.refresh_endpoints()
            self.the_issuer_of_every_served_leaf_is_in_the_ca_bundle()
            if isinstance(action, Wait):
                self.cluster.now += timedelta(minutes=2)

    @rule(name=LEADERS)
    def a_leader_dies(self, name):
        self.rounds.pop(name, None)

    @rule(endpoint=ENDPOINTS)
    def an_endpoint_reads_its_mount(self, endpoint):
        if endpoint in self.cluster.endpoints:
            self.cluster.endpoints[endpoint].refresh(self.cluster.tls.value, self.cluster.now)

    @rule(endpoint=ENDPOINTS)
    def an_endpoint_starts_again(self, endpoint):
        self.cluster.endpoints[endpoint] = Endpoint()
        self.an_endpoint_reads_its_mount(endpoint)

    @rule(endpoint=ENDPOINTS)
    def an_endpoint_goes(self, endpoint):
        self.cluster.endpoints.pop(endpoint, None)

    @rule(endpoint=ENDPOINTS, reachable=st.booleans())
    def the_network_changes(self, endpoint, reachable):
        if endpoint in self.cluster.endpoints:
            self.cluster.endpoints[endpoint].reachable = reachable

    @rule(step=NORMAL_TIME)
    def time_passes(self, step):
        self.cluster.now += step

    @rule(jump=JUMPS)
    def the_clock_jumps(self, jump):
        self.cluster.now += jump

    @precondition(no_ca_is_known_to_its_secret_alone)
    @rule(secret=SECRETS)
    def a_hand_deletes_a_secret(self, secret):
        stored = getattr(self.cluster, secret)
        stored.replace(None, stored.version)

    @precondition(no_ca_is_known_to_its_secret_alone)
    @rule(secret=SECRETS, data=st.data())
    def a_hand_tears_a_value(self, secret, data):
        """Half written, or taken away."""
        self.edit(secret, {data.draw(st.sampled_from(KEYS[secret])): data.draw(st.sampled_from([None, 0.5]))})

    @rule()
    def a_hand_strips_all_annotations(self):
        for stored in (self.cluster.tls, self.cluster.authorities):
            if stored.value is not None:
                stored.replace(SecretContent(stored.value.data, {}), stored.version)

    @precondition(no_ca_is_known_to_its_secret_alone)
    @rule(with_ca=st.booleans())
    def a_hand_puts_a_foreign_pair_into_the_tls_secret(self, with_ca):
        authority = make_authority(self.cluster.now)
        leaf = make_leaf(authority, NAMES, self.cluster.now)
        pair = {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
        self.edit("tls", {**pair, "ca.crt": authority.certificate_pem} if with_ca else pair)

    @precondition(no_ca_is_known_to_its_secret_alone)
    @rule()
    def a_hand_puts_a_foreign_ca_into_the_ca_secret(self):
        authority = make_authority(self.cluster.now)
        self.edit("authorities", {"ca.crt": authority.certificate_pem, "ca.key": authority.key_pem})

    @precondition(lambda self: self.all_issuers_are_stored())
    @rule()
    def a_hand_empties_the_ca_bundle(self):
        self.emptied_by_hand = True
        self.cluster.bundle.replace(b"", self.cluster.bundle.version)

    def all_issuers_are_stored(self):
        """Else nothing but the caBundle knows the CA of what is served, and no product could help."""
        stored = self.cluster.authorities.value
        own = [ca for pem in (stored.data.values() if stored else ()) for ca in _readable(pem)]
        tls = self.cluster.tls.value
        stored_leaf = [pem for pem in [tls.data.get("tls.crt", b"") if tls else b""] if _readable(pem)]
        return not self.rounds and all(issuers(leaf, own) for leaf in self.leaves() + stored_leaf)

    def edit(self, secret, changes):
        stored = getattr(self.cluster, secret)
        if stored.value is None:
            return
        data = dict(stored.value.data)
        for key, value in changes.items():
            before = data.pop(key, b"")
            if value is not None:
                data[key] = before[: len(before) // 2] if value == 0.5 else value
        stored.replace(SecretContent(data, stored.value.annotations), stored.version)

    def leaves(self):
        return [e.leaf_pem for e in self.cluster.endpoints.values() if e.leaf_pem is not None]

    @invariant()
    def the_issuer_of_every_served_leaf_is_in_the_ca_bundle(self):
        if not self.emptied_by_hand:
            bundle = certificates(self.cluster.bundle.value)
            for leaf in self.leaves():
                assert issuers(leaf, bundle)

    @rule()
    def all_becomes_quiet(self):
        """One leader, patient time, endpoints that answer: it converges, whatever happened before."""
        cluster = self.cluster
        self.rounds.clear()
        for endpoint in cluster.endpoints.values():
            endpoint.reachable = True
        for _ in range(60):
            action = cluster.step()
            self.the_issuer_of_every_served_leaf_is_in_the_ca_bundle()
            cluster.refresh_endpoints()
            if isinstance(action, Wait):
                if phase(cluster.observation()) == Phase.STEADY:
                    break
                assert cluster.now < action.until
                cluster.now = min(action.until, cluster.now + timedelta(hours=24))
        self.check_the_steady_state()

    def check_the_steady_state(self):
        cluster = self.cluster
        seen = cluster.observation()
        assert phase(seen) == Phase.STEADY
        assert digests(cluster.bundle.value) == {seen.authorities.current.sha256} == seen.tls.injected
        assert seen.authorities.current.not_before <= cluster.now < seen.authorities.current.not_after
        assert seen.tls.leaf.not_before <= cluster.now < seen.tls.leaf.not_after
        assert (seen.authorities.coming, seen.authorities.previous) == (None, ())
        for endpoint in cluster.endpoints.values():
            assert fingerprint(certificates(endpoint.leaf_pem)[0]) == seen.tls.leaf.sha256
        self.emptied_by_hand = False


def _readable(pem):
    try:
        return certificates(pem)
    except ValueError:
        return []


TestRotation = Rotation.TestCase
TestRotation.settings = settings(
    max_examples=examples(32),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
