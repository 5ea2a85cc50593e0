"""A small cluster for the rotation: two Secrets, one caBundle, endpoints, and leaders that die."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509

from certs.inspection import signed_by
from certs.leaf import service_names
from certs.observation import SecretContent, Stored, observe
from certs.pem import fingerprint
from certs.rotation import Action, RotationSettings, Wait, decide
from certs.secret_writes import CaBundleWrite, SecretWrite, prepare_write

START = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
NAMES = service_names("injector", "gpu")
SETTINGS = RotationSettings()


@dataclass
class Versioned:
    """An API object: a write succeeds only over the version that was read."""

    value: SecretContent | bytes | None
    version: int = 0

    def replace(self, value, version: int) -> bool:
        if version != self.version:
            return False
        self.value, self.version = value, version + 1
        return True


@dataclass
class Endpoint:
    """A webhook process, which keeps its leaf until the mounted Secret holds a better one."""

    leaf_pem: bytes | None = None
    reachable: bool = True

    def refresh(self, secret: SecretContent | None, now: datetime) -> None:
        """What a mounted certificate does with `require_injected`."""
        if secret is None:
            return
        tls = observe(Stored(secret, None, None), {}, NAMES).tls
        is_trusted = tls.leaf is not None and tls.leaf.issuer_sha256 in tls.injected
        if is_trusted and tls.leaf.not_before <= now < tls.leaf.not_after:
            self.leaf_pem = secret.data["tls.crt"]


@dataclass
class Cluster:
    now: datetime = START
    tls: Versioned = field(default_factory=lambda: Versioned(None))
    bundle: Versioned = field(default_factory=lambda: Versioned(b""))
    authorities: Versioned = field(default_factory=lambda: Versioned(None))
    endpoints: dict[str, Endpoint] = field(default_factory=dict)

    def served(self) -> dict[str, bytes | None]:
        """What dialling tells; a process without a leaf is not ready, and so not an endpoint."""
        return {
            name: endpoint.leaf_pem if endpoint.reachable else None
            for name, endpoint in self.endpoints.items()
            if endpoint.leaf_pem is not None
        }

    def refresh_endpoints(self) -> None:
        for endpoint in self.endpoints.values():
            endpoint.refresh(self.tls.value, self.now)

    def stored(self) -> Stored:
        return Stored(self.tls.value, self.bundle.value, self.authorities.value)

    def observation(self):
        return observe(self.stored(), self.served(), NAMES)

    def apply(self, write, versions) -> bool:
        """Whether the write was done: not over a version that is not the one read."""
        tls, bundle, authorities = versions
        match write:
            case SecretWrite("tls", content):
                return self.tls.replace(content, tls)
            case SecretWrite("ca", content):
                return self.authorities.replace(content, authorities)
            case CaBundleWrite(pem):
                return self.bundle.replace(pem, bundle)

    def step(self) -> Action:
        actions = [action for action in leader(self) if action is not None]
        return actions[0]

    def walk(self) -> list[str]:
        """Steps of one leader until it waits; the names of the actions."""
        done = []
        while not isinstance(action := self.step(), Wait):
            done.append(type(action).__name__)
            assert len(done) < 40, done
        return done


def leader(cluster: Cluster) -> Iterator[Action | None]:
    """One round, in the order that certs.rotation asks for; may die at each yield."""
    tls, tls_version = cluster.tls.value, cluster.tls.version
    yield None
    bundle, bundle_version = cluster.bundle.value, cluster.bundle.version
    yield None
    served = cluster.served()
    yield None
    authorities, authorities_version = cluster.authorities.value, cluster.authorities.version
    yield None
    now, stored = cluster.now, Stored(tls, bundle, authorities)
    action = decide(observe(stored, served, NAMES), now, SETTINGS)
    if not isinstance(action, Wait):
        write = prepare_write(action, stored, NAMES, now)
        yield None
        cluster.apply(write, (tls_version, bundle_version, authorities_version))
    yield action


def certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem) if pem else []


def digests(pem: bytes) -> set[str]:
    return {fingerprint(certificate) for certificate in certificates(pem)}


def issuers(leaf_pem: bytes, authorities: list[x509.Certificate]) -> list[x509.Certificate]:
    leaf = certificates(leaf_pem)[0]
    return [ca for ca in authorities if signed_by(leaf, ca)]


DAY = timedelta(days=1)
