"""Loads certificates and keys from memory into OpenSSL's contexts, and names the faulty file."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from certs.values import CertificateError, KeyPair, TlsFiles

_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----"
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons if the key belongs to another certificate; the last if the type of key differs."""


def load_pair(context: ssl.SSLContext, pair: KeyPair, folder: str = "") -> None:
    """Load a pair into a context that is not in use yet.

    `folder`, with a trailing slash, is the prefix of file names in errors.
    Raises CertificateError with the faulty file if OpenSSL rejects the pair.
    """

    def refuse_password() -> str:
        raise CertificateError(f"{folder}tls.key: the private key is encrypted; store it without a password")

    with ExitStack() as stack:
        certificate = stack.enter_context(_as_file(pair.certificate_pem))
        key = stack.enter_context(_as_file(pair.key_pem))
        try:
            context.load_cert_chain(certificate, key, password=refuse_password)
        except ssl.SSLError as error:
            raise _refusal(error, pair, folder) from error


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that presents `files.pair` and accepts servers with a certificate from `files.ca_pem`.

    Raises CertificateError if OpenSSL rejects the pair or the CAs.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_pair(context, files.pair, f"{files.source}/")
    load_authorities(context, files.ca_pem, f"{files.source}/ca.crt")
    return context


def load_authorities(context: ssl.SSLContext, pem: bytes, file: str) -> None:
    """Let a context trust the certificates of a PEM text, whether they are roots or not, as Go does.

    Raises CertificateError like `certificates_in`.
    """
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(certificates_in(pem, file)))


def certificates_in(pem: bytes, file: str) -> list[bytes]:
    """Return the certificates of a PEM text in order, each as DER.

    Raises CertificateError if there is none or one is unreadable; `file` is the name to use in errors.
    """
    begun = pem.split(_BEGIN)[1:]
    if not begun:
        raise CertificateError(
            f"{file}: holds no certificate ({len(pem)} bytes); expected PEM, {_BEGIN.decode()}"
        )
    whole = [text.partition(_END)[0] for text in begun if _END in text]
    if len(whole) != len(begun):
        raise _unreadable(file, f"of {len(begun)} only {len(whole)} have an end")
    try:
        found = [ssl.PEM_cert_to_DER_cert((_BEGIN + text + _END).decode("ascii")) for text in whole]
        # One context for all: creating one takes longer than reading a certificate.
        reader = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for each in found:
            reader.load_verify_locations(cadata=each)
    except (ValueError, ssl.SSLError) as error:
        raise _unreadable(file, error) from error
    return found


def _unreadable(file: str, why: object) -> CertificateError:
    return CertificateError(
        f"{file}: a certificate in it cannot be read ({why}); write the file whole, as PEM"
    )


def _refusal(error: ssl.SSLError, pair: KeyPair, folder: str) -> CertificateError:
    """Return why OpenSSL rejects a pair, with the faulty file."""
    try:
        certificates_in(pair.certificate_pem, f"{folder}tls.crt")
    except CertificateError as unreadable:
        return unreadable
    if error.reason in _MISMATCHES:
        return CertificateError(f"{folder}tls.key: is not the key of {folder}tls.crt; store both of one pair")
    if "_TOO_" in (error.reason or ""):
        return CertificateError(
            f"{folder}tls.crt and tls.key: OpenSSL rejects the pair ({error.reason}); issue a stronger one"
        )
    return CertificateError(
        f"{folder}tls.key: holds no readable private key ({len(pair.key_pem)} bytes); "
        "expected PEM, -----BEGIN PRIVATE KEY-----"
    )


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read `content`: it loads pairs only from files."""
    if sys.platform == "linux":
        # Keys stay in memory. The container's root file system may be read-only.
        descriptor = os.memfd_create("pem")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
