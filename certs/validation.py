"""Checks a mounted pair before it is served, as its clients will: by TLS handshakes in memory.

It uses only the standard library: cryptography would keep 11 MB in a server, for a check every few weeks.
"""

import contextlib
import hashlib
import ssl
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from certs.contexts import certificates_in, load_pair
from certs.values import CertificateError, LeafFacts, TlsFiles, format_time

_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which Python has no name."""
_MAX_FLIGHTS = 4
_WRONG_PURPOSE = 26
"""OpenSSL's X509_V_ERR_INVALID_PURPOSE."""
_WRONG_NAMES = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""

_DIALLED = ("DNS", "IP Address")
"""Kinds of subject alternative names, as ssl calls them, by which a server is dialled."""


def validate_files(files: TlsFiles, names: Iterable[str]) -> LeafFacts:
    """Return the facts of the leaf in `files`, if clients that trust `ca.crt` accept it now for all `names`.

    Raises CertificateError with the file, the value and the broken rule.
    """
    return _Candidate(files).facts(names)


class _Candidate:
    """A pair to check, and a server in memory that already serves it."""

    def __init__(self, files: TlsFiles) -> None:
        self._folder = f"{files.source}/"
        self._file = f"{self._folder}tls.crt"
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_pair(self._server, files.pair, self._folder)
        self._der = certificates_in(files.pair.certificate_pem, self._file)[0]
        self._leaf = self._decode()
        self._authorities_pem = files.ca_pem

    def facts(self, names: Iterable[str]) -> LeafFacts:
        not_before, not_after = self._dates()
        authorities = certificates_in(self._authorities_pem, f"{self._folder}ca.crt")
        self._check_chain(authorities)
        self._check_names(authorities, names)
        anchor = self._anchor(authorities)
        return LeafFacts(_sha256(self._der), _sha256(anchor), not_before, not_after)

    def _decode(self) -> Mapping[str, Any]:
        """Return the leaf's fields, as a client decodes them that trusts the leaf itself, at any time."""
        client = _client([self._der])
        client.verify_flags |= _NO_CHECK_TIME
        try:
            return self._shake_hands(client)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code == _WRONG_PURPOSE:
                raise CertificateError(
                    f"{self._file}: extendedKeyUsage lacks serverAuth; issue it for server use"
                ) from error
            raise CertificateError(
                f"{self._file}: no client accepts it ({error.verify_message}); issue it again"
            ) from error

    def _dates(self) -> tuple[datetime, datetime]:
        """Return notBefore and notAfter; raises CertificateError unless the time is between them."""
        now = datetime.now(UTC)
        not_before, not_after = self._date("notBefore"), self._date("notAfter")
        if now < not_before:
            raise CertificateError(
                f"{self._file}: notBefore {format_time(not_before)} is still to come "
                f"at {format_time(now)}; check the clocks or issue it again"
            )
        if now > not_after:
            raise CertificateError(
                f"{self._file}: notAfter {format_time(not_after)} is over "
                f"at {format_time(now)}; issue it again"
            )
        return not_before, not_after

    def _date(self, key: str) -> datetime:
        try:
            return datetime.fromtimestamp(ssl.cert_time_to_seconds(self._leaf[key]), UTC)
        except ValueError as error:
            raise CertificateError(f"{self._file}: {key} is not a valid time; issue it again") from error

    def _check_chain(self, authorities: Sequence[bytes]) -> None:
        try:
            self._shake_hands(_client(authorities))
        except ssl.SSLCertVerificationError as error:
            issuer = ", ".join(f"{key}={value}" for part in self._leaf["issuer"] for key, value in part)
            raise CertificateError(
                f"{self._file}: issued by {issuer!r}, which leads to no valid CA of {self._folder}ca.crt "
                f"({error.verify_message}); store the pair and its CA together"
            ) from error

    def _check_names(self, authorities: Sequence[bytes], names: Iterable[str]) -> None:
        client = _client(authorities)
        client.check_hostname = True
        missing = [name for name in names if not self._is_good_for(client, name)]
        if missing:
            alternatives = self._leaf.get("subjectAltName", ())
            held = sorted(value for kind, value in alternatives if kind in _DIALLED)
            raise CertificateError(
                f"{self._file}: subjectAltName {held} lacks {', '.join(missing)}; "
                "issue it for every name it is dialled by"
            )

    def _is_good_for(self, client: ssl.SSLContext, name: str) -> bool:
        try:
            self._shake_hands(client, name)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code in _WRONG_NAMES:
                return False
            raise CertificateError(f"{self._file}: {error.verify_message}; issue it again") from error
        return True

    def _anchor(self, authorities: Sequence[bytes]) -> bytes:
        """Return one of `authorities` that validates the leaf by itself; all of them together do."""
        while len(authorities) > 1:
            half, rest = authorities[: len(authorities) // 2], authorities[len(authorities) // 2 :]
            try:
                self._shake_hands(_client(half))
                authorities = half
            except ssl.SSLCertVerificationError:
                authorities = rest
        return authorities[0]

    def _shake_hands(self, client: ssl.SSLContext, name: str | None = None) -> Mapping[str, Any]:
        """Return the leaf as ssl's `getpeercert` returns it to a client that accepts it.

        Raises ssl.SSLCertVerificationError if the client rejects it, CertificateError if there is no leaf.
        """
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        answering = self._server.wrap_bio(to_server, to_client, server_side=True)
        try:
            asking = client.wrap_bio(to_client, to_server, server_hostname=name)
            for _ in range(_MAX_FLIGHTS):
                for side in (asking, answering):
                    with contextlib.suppress(ssl.SSLWantReadError):
                        side.do_handshake()
            return asking.getpeercert() or {}
        except ssl.SSLCertVerificationError:
            raise
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(
                f"{self._file}: no client can shake hands with it ({error}); issue an RSA or EC key"
            ) from error


def _client(trusted: Sequence[bytes]) -> ssl.SSLContext:
    """Return a context that trusts these certificates, roots or not, as Go does, and checks no name."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.hostname_checks_common_name = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=b"".join(trusted))
    return client


def _sha256(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()
