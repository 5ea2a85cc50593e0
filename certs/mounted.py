"""The certificate of a server with a mounted TLS Secret: always the newest valid pair."""

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from certs.contexts import client_context
from certs.live_context import LiveTlsContext
from certs.validation import validate_files
from certs.values import CertificateError, KeyPair, LeafFacts, TlsFiles

_KUBELET_GENERATION = "..data"
"""The symlink that the kubelet swaps when a Secret changes; the other files point through it."""
POLL_SECONDS = 1.0
"""Between two reads of the directory."""


@dataclass(frozen=True, slots=True)
class MountRules:
    """What a mounted pair must fulfil to be served."""

    names: Sequence[str]
    """DNS names and IP addresses for which the leaf must be valid."""
    require_injected: bool = False
    """Self-managed mode: serve a leaf only if `injected-ca` lists its issuer, that is, if the
    controller has read this CA back from the caBundle. A Secret edited by hand is not served."""


_Found = tuple[TlsFiles, LeafFacts] | CertificateError | None
"""What the directory holds: a valid pair, or why it is none; None if it is the content accepted last."""


class MountedCertificate:
    """Serves the newest valid pair of a directory, and presents the same pair as a client.

    A pair that is invalid or incomplete is not served: the one before stays.
    """

    def __init__(  # noqa: PLR0913 what it reads, whom it notifies, and which clients it accepts
        self,
        directory: Path,
        rules: MountRules,
        served: Callable[[LeafFacts], None],
        refused: Callable[[CertificateError], None],
        *,
        verify_clients: bool = False,
        client_ca_pem: bytes | None = None,
    ) -> None:
        """Read the directory once; `served` and `refused` are called once for each new content.

        With `verify_clients`, only clients with a certificate of `ca.crt` are accepted; with `client_ca_pem`,
        only those with a certificate of these CAs.
        """
        self.context = LiveTlsContext(verify_clients=verify_clients or client_ca_pem is not None)
        self.client: ssl.SSLContext | None = None
        """Presents the pair to servers of the same CA; None before the first pair."""
        self._directory = directory
        self._rules = rules
        self._served = served
        self._refused = refused
        self._verify_clients = verify_clients
        self._client_ca_pem = client_ca_pem
        self._last_error = "no certificate has been read yet"
        self._accepted_digest = self._rejected_digest = b""
        self.refresh()

    @property
    def missing(self) -> str | None:
        """Why no certificate is served; None if one is."""
        return None if self.context.serving else self._last_error

    def refresh(self) -> None:
        """Read the directory once, and serve new content; rejected content is checked again."""
        self._take(*self._read())

    async def follow(self, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Read the directory every second until cancelled; call `heartbeat` after each read.

        The content is compared, so a replaced directory is detected too, and a node cannot run out of
        watches. New content is checked in a thread, while the server keeps serving.
        """
        while True:
            self._take(*await asyncio.to_thread(self._read))
            heartbeat()
            await asyncio.sleep(POLL_SECONDS)

    def _read(self) -> tuple[bytes, _Found]:
        """Return the digest of the content, and what it is; what was rejected is checked again."""
        try:
            files = read_tls_files(self._directory)
        except CertificateError as error:
            return str(error).encode(), error
        digest = _digest(files)
        if digest == self._accepted_digest:
            return digest, None
        try:
            return digest, (files, self._check(files))
        except CertificateError as error:
            return digest, error

    def _check(self, files: TlsFiles) -> LeafFacts:
        leaf = validate_files(files, self._rules.names)
        if self._rules.require_injected and leaf.issuer_sha256 not in files.injected_ca:
            raise CertificateError(
                f"{files.source}/injected-ca: does not list {leaf.issuer_sha256}, the issuer of tls.crt; "
                "wait until the controller has read this CA back from the caBundle"
            )
        return leaf

    def _take(self, digest: bytes, found: _Found) -> None:
        try:
            if isinstance(found, CertificateError):
                raise found
            if found is not None:
                self._accept(*found)
        except CertificateError as error:
            if digest != self._rejected_digest:
                self._rejected_digest, self._last_error = digest, str(error)
                self._refused(error)
        else:
            self._accepted_digest, self._rejected_digest = digest, b""

    def _accept(self, files: TlsFiles, leaf: LeafFacts) -> None:
        client = client_context(files)
        self.context.swap(files.pair, files.ca_pem if self._verify_clients else self._client_ca_pem)
        self.client = client
        self._served(leaf)


def read_tls_files(directory: Path) -> TlsFiles:
    """Return the content of a mounted TLS Secret. Raises CertificateError if a file cannot be read.

    In a kubelet mount, all files are read from one generation, so that a swap cannot mix two.
    `injected-ca` may be missing: only the self-managed mode has it.
    """
    try:
        generation = directory / _KUBELET_GENERATION
        folder = generation.resolve() if generation.is_symlink() else directory
        is_injected = (folder / "injected-ca").exists()
    except (OSError, RuntimeError) as error:
        # RuntimeError: symlinks that form a loop, before Python 3.13.
        raise CertificateError(f"{directory}: {error}; mount a Secret that this user may read") from error
    injected = _read(folder, "injected-ca", directory) if is_injected else b""
    return TlsFiles(
        pair=KeyPair(_read(folder, "tls.crt", directory), _read(folder, "tls.key", directory)),
        ca_pem=_read(folder, "ca.crt", directory),
        injected_ca=frozenset(injected.decode("ascii", "replace").split()),
        source=str(directory),
    )


def _read(folder: Path, name: str, directory: Path) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise CertificateError(
            f"{directory}/{name}: {error.strerror}; mount a Secret that holds it"
        ) from error


def _digest(files: TlsFiles) -> bytes:
    parts = (
        files.pair.certificate_pem,
        files.pair.key_pem,
        files.ca_pem,
        *map(str.encode, sorted(files.injected_ca)),
    )
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
