"""The newest valid pair of a mounted TLS Secret."""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from certs.apart import validate_files
from certs.pair import CertificateError, KeyPair, LeafFacts, TlsFiles

_KUBELET_GENERATION = "..data"
"""The symlink that the kubelet swaps when a Secret changes; the files beside it point through it."""
_LOOK_SECONDS = 1.0
_LOOKS_PER_TRY = 30
"""A content that was rejected is tried again at every 30th look: it may have waited for its notBefore."""


@dataclass(frozen=True, slots=True)
class MountRules:
    """What a mounted pair must fulfil."""

    names: Sequence[str]
    """DNS names and IP addresses that the leaf must be good for."""
    require_injected: bool = False
    """Self-managed mode: serve a leaf only when `injected-ca` lists its issuer, that is, when the
    controller has read this CA back from the caBundle. A Secret edited by hand is not served."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the directory found."""

    digest: bytes
    found: tuple[TlsFiles, LeafFacts] | CertificateError | None
    """None: what was accepted last."""


class MountedPair:
    """Keeps what is served at the newest valid pair of a directory; a bad or torn one changes nothing."""

    def __init__(
        self,
        directory: Path,
        rules: MountRules,
        clock: Callable[[], datetime],
        accept: Callable[[TlsFiles, LeafFacts], None],
        reject: Callable[[CertificateError], None],
    ) -> None:
        """`clock` gives the aware wall-clock time.

        `accept` gets each new valid content and may raise CertificateError itself; `reject` gets the
        reason why a new content is not served, once per content.
        """
        self._directory = directory
        self._rules = rules
        self._clock = clock
        self._accept = accept
        self._reject = reject
        self._accepted_digest = b""
        self._rejected_digest = b""

    def refresh(self) -> None:
        """Read the directory once and hand on what is new; a rejected content is tried again."""
        self._settle(self._look(again=True))

    async def run(self) -> None:
        """Look at the directory every second, until cancelled.

        Its content is compared: nothing has to be known of how it changes, a directory made anew is found,
        and a node cannot run out of watches. What is new is checked in a thread, which takes a tenth of a
        second, while the server goes on.
        """
        for number in itertools.count():
            self._settle(await asyncio.to_thread(self._look, again=number % _LOOKS_PER_TRY == 0))
            await asyncio.sleep(_LOOK_SECONDS)

    def _look(self, *, again: bool) -> _Look | None:
        """None for what was rejected and is not to be tried again."""
        try:
            files = read_tls_files(self._directory)
        except CertificateError as error:
            return _Look(str(error).encode(), error)
        digest = _digest(files)
        if digest == self._accepted_digest:
            return _Look(digest, None)
        if digest == self._rejected_digest and not again:
            return None
        try:
            return _Look(digest, (files, self._check(files)))
        except CertificateError as error:
            return _Look(digest, error)

    def _check(self, files: TlsFiles) -> LeafFacts:
        leaf = validate_files(files, self._rules.names, self._clock())
        if self._rules.require_injected and leaf.issuer_sha256 not in files.injected_ca:
            raise CertificateError(
                f"{files.source}/injected-ca: does not list {leaf.issuer_sha256}, the issuer of tls.crt; "
                "wait until the controller has read this CA back from the caBundle"
            )
        return leaf

    def _settle(self, look: _Look | None) -> None:
        if look is None:
            return
        try:
            if isinstance(look.found, CertificateError):
                raise look.found
            if look.found is not None:
                self._accept(*look.found)
        except CertificateError as error:
            if look.digest != self._rejected_digest:
                self._rejected_digest = look.digest
                self._reject(error)
        else:
            self._accepted_digest, self._rejected_digest = look.digest, b""


def read_tls_files(directory: Path) -> TlsFiles:
    """The content of a mounted TLS Secret; raises CertificateError when a file cannot be read.

    In a kubelet mount all files are read from one generation, so that a swap in between cannot mix two.
    `injected-ca` may be missing: only the self-managed mode has it.
    """
    generation = directory / _KUBELET_GENERATION
    folder = generation.resolve() if generation.is_symlink() else directory
    injected = _read(folder, "injected-ca", directory) if (folder / "injected-ca").exists() else b""
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
