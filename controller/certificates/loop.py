"""Carries out the certificate rotation: observe, decide, write once, repeat. Only the leader runs it.

All state is in the cluster, so a new leader continues after the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from certs.mounted import read_tls_files
from certs.observation import Observation, Stored, observe
from certs.rotation import (
    Action,
    Change,
    Phase,
    RotationSettings,
    StoreNewAuthority,
    Wait,
    WriteBundle,
    decide,
    phase,
)
from certs.secret_writes import CaBundleWrite, Suffix, Write, prepare_write
from certs.values import CertificateError
from cluster.kube_client import CHANGED_MEANWHILE, ApiError
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.certificates.metrics import CertificateMetrics
from controller.certificates.store import Bundle, CertificateStore
from service.background import beat
from service.log import get_logger

BUNDLE_SECONDS = RotationSettings().retry.total_seconds()


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that was read, with the versions that a write expects."""

    stored: Stored
    seen: Observation
    versions: Mapping[Suffix, str | None]
    """Resource versions; None for a Secret that does not exist."""
    bundle: Bundle

    def missing(self, installation: str) -> list[str]:
        """Names of the Secrets that do not exist."""
        return [f"{installation}-{suffix}" for suffix, version in self.versions.items() if version is None]


async def read_state(store: CertificateStore, names: Sequence[str]) -> Reading:
    """Read everything, `-tls` first and `-ca` last, as certs.rotation requires.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: something cannot be read.
    """
    tls, tls_version = await store.read_secret("tls")
    bundle = await store.read_bundle()
    served = await store.served()
    authorities, authorities_version = await store.read_secret("ca")
    stored = Stored(tls, bundle.pem, authorities)
    versions: dict[Suffix, str | None] = {"ca": authorities_version, "tls": tls_version}
    return Reading(stored, observe(stored, served, names), versions, bundle)


class BundleLoop:
    """Keeps the caBundle equal to the CA of a mounted Secret that somebody else issues."""

    def __init__(
        self, store: CertificateStore, leadership: Leadership, metrics: CertificateMetrics, directory: Path
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._metrics = metrics
        self._directory = directory
        self._log = get_logger("certificates")

    async def run(self) -> None:
        """Write the caBundle if it differs, while this replica leads.

        Raises:
            CertificateError: the directory holds no CA.
            ApiError, OSError, TimeoutError, aiohttp.ClientError: the bundle cannot be read or written.
        """
        try:
            await while_leading(self._leadership, self._step, BUNDLE_SECONDS)
        finally:
            # Another replica leads now, and its metric counts.
            self._metrics.show_configuration(is_there=True)

    async def _step(self) -> None:
        authority = read_tls_files(self._directory).ca_pem
        bundle = await self._store.read_bundle()
        self._metrics.show_configuration(is_there=bundle.pem is not None)
        if bundle.pem is not None and bundle.pem != authority:
            await self._store.write_bundle(authority, bundle)
            self._metrics.written(WriteBundle.__name__)
            self._log.info("certificates", action=WriteBundle.__name__)


class CertificateLoop:
    """Issues and rotates the CA and the leaf of an installation."""

    def __init__(  # noqa: PLR0913 the last is replaced in tests only
        self,
        store: CertificateStore,
        leadership: Leadership,
        metrics: CertificateMetrics,
        names: Sequence[str],
        settings: RotationSettings,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`names` are the DNS names that the leaf must cover."""
        self._store = store
        self._leadership = leadership
        self._metrics = metrics
        self._names = names
        self._settings = settings
        self._clock = clock
        self._phase: Phase | None = None
        self._log = get_logger("certificates")

    async def run(self) -> None:
        """Keep certificates valid while this replica leads.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: something cannot be read or written.
        """
        try:
            while self._leadership.leads:
                action = await self._step()
                beat()
                if isinstance(action, Wait):
                    # Someone may have edited a Secret or the configuration by hand.
                    seconds = min(action.until - self._clock(), self._settings.retry).total_seconds()
                    await asyncio.sleep(max(0.1, seconds))
        finally:
            # Another replica leads now, and its metric counts.
            self._metrics.show_configuration(is_there=True)

    async def _step(self) -> Action:
        found = await read_state(self._store, self._names)
        now = self._clock()
        action = decide(found.seen, now, self._settings)
        self._show_phase(found.seen)
        self._metrics.show_configuration(is_there=found.seen.bundle is not None)
        if not isinstance(action, Wait) and self._leadership.leads:
            await self._carry_out(action, found, now)
        return action

    async def _carry_out(self, action: Change, found: Reading, now: datetime) -> None:
        try:
            await self._write(prepare_write(action, found.stored, self._names, now), found)
        except CertificateError as error:
            self._metrics.errors.inc()
            self._log.error("no certificate", action=type(action).__name__, error=str(error))
            await asyncio.sleep(1)
        except ApiError as error:
            await self._refused(error, action, found)
        else:
            self._metrics.written(type(action).__name__)
            why = {"why": action.why} if isinstance(action, StoreNewAuthority) else {}
            self._log.info("certificates", action=type(action).__name__, **why)

    async def _refused(self, error: ApiError, action: Change, found: Reading) -> None:
        """Log a write that the API server rejected; raise an unexpected error."""
        if error.status in CHANGED_MEANWHILE:
            self._log.warning("changed meanwhile", action=type(action).__name__, error=str(error))
            await asyncio.sleep(0.2)
            return
        missing = found.missing(self._store.installation.name)
        if error.status != HTTPStatus.FORBIDDEN or not missing:
            raise error
        self._metrics.errors.inc()
        self._log.error(
            "a Secret is missing, and the controller may not create any",
            secrets=missing,
            do="run `helm upgrade` with the values of the installation: the chart makes the Secret, empty, "
            "and the controller fills it",
            error=str(error),
        )
        await asyncio.sleep(self._settings.retry.total_seconds())

    async def _write(self, write: Write, found: Reading) -> None:
        if isinstance(write, CaBundleWrite):
            await self._store.write_bundle(write.pem, found.bundle)
            return
        await self._store.write_secret(write.suffix, write.content, found.versions[write.suffix])
        if write.suffix == "tls":
            await self._store.deliver(write.content)

    def _show_phase(self, seen: Observation) -> None:
        now = phase(seen)
        self._metrics.show(seen, now)
        if now is not self._phase:
            self._log.info("rotation", phase=now.value, before=self._phase.value if self._phase else None)
            self._phase = now
