"""Loads certificates and keys into OpenSSL's contexts from memory, and names the file at fault."""

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
"""What OpenSSL says of the key of another certificate; the last, where even the kind of key differs."""


def load_pair(context: ssl.SSLContext, pair: KeyPair, folder: str = "") -> None:
    """Load a pair into a context that nobody uses yet.

    `folder`, with a slash at its end, stands before the names of the files in errors.
    Raises CertificateError with the file at fault when OpenSSL refuses the pair.
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
    """Return a context that shows `files.pair` and accepts servers that `files.ca_pem` vouches for.

    Raises CertificateError when OpenSSL refuses the pair or the CAs.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_pair(context, files.pair, f"{files.source}/")
    load_authorities(context, files.ca_pem, f"{files.source}/ca.crt")
    return context


def load_authorities(context: ssl.SSLContext, pem: bytes, file: str) -> None:
    """Let a context trust the certificates of a PEM text, be they roots or not, as Go does.

    Raises CertificateError as `certificates_in`.
    """
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(certificates_in(pem, file)))


def certificates_in(pem: bytes, file: str) -> list[bytes]:
    """The certificates of a PEM text in their order, each as DER.

    Raises CertificateError when there is none or one cannot be read; `file` is the name to use in errors.
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
        # One context for all: to make one takes longer than to read a certificate.
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
    """Why OpenSSL refuses a pair, by the file at fault."""
    try:
        certificates_in(pair.certificate_pem, f"{folder}tls.crt")
    except CertificateError as unreadable:
        return unreadable
    if error.reason in _MISMATCHES:
        return CertificateError(f"{folder}tls.key: is not the key of {folder}tls.crt; store both of one pair")
    if "_TOO_" in (error.reason or ""):
        return CertificateError(
            f"{folder}tls.crt and tls.key: OpenSSL refuses the pair ({error.reason}); issue a stronger one"
        )
    return CertificateError(
        f"{folder}tls.key: holds no readable private key ({len(pair.key_pem)} bytes); "
        "expected PEM, -----BEGIN PRIVATE KEY-----"
    )


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path that OpenSSL, which loads pairs from files only, can read `content` from."""
    if sys.platform == "linux":
        # Keys stay in memory, and the container's root file system may be read-only.
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
