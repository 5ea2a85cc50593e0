"""A listener's TLS context whose certificate changes while it serves."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from certs.pair import CertificateError, KeyPair


class LiveTlsContext:
    """Serves the newest pair to every new connection; connections that are open keep theirs.

    The listener holds no key itself: its sni_callback, which OpenSSL calls with or without a server
    name in the handshake, hands out a context that nobody changes any more. A live context must not
    be loaded anew: between certificate and key, or with a mismatched pair, every handshake fails.
    Before the first `swap` handshakes are refused.
    """

    def __init__(self, *, verify_clients: bool = False) -> None:
        """With `verify_clients` only clients with a certificate of the given client CAs get in."""
        self._verify_clients = verify_clients
        self._newest: ssl.SSLContext | None = None
        self.listener = _empty_context(verify_clients=verify_clients)
        """The context for the server's socket; the same object for the life of the process."""
        self.listener.sni_callback = self._hand_out

    @property
    def serving(self) -> bool:
        """True once there is a pair to serve."""
        return self._newest is not None

    def swap(self, pair: KeyPair, client_ca_pem: bytes | None = None) -> None:
        """Serve `pair` from the next handshake on; safe to call from any thread.

        `client_ca_pem` is required exactly when clients are verified. Raises CertificateError when
        OpenSSL refuses the pair or the client CAs; what was served before then stays.
        """
        if self._verify_clients != (client_ca_pem is not None):
            raise ValueError("client_ca_pem goes with verify_clients; pass both or neither")
        fresh = _empty_context(verify_clients=self._verify_clients)
        load_pair(fresh, pair)
        if client_ca_pem is not None:
            _load_client_authorities(fresh, client_ca_pem)
        self._newest = fresh

    def _hand_out(
        self, connection: ssl.SSLObject, _server_name: str | None, _listener: ssl.SSLContext
    ) -> int | None:
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


def _empty_context(*, verify_clients: bool) -> ssl.SSLContext:
    """Without resumption: the listener would resume a session past a swap of pair or client CAs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    if verify_clients:
        # The verify mode is taken from the listener, the client CAs from the context handed out.
        context.verify_mode = ssl.CERT_REQUIRED
        # Python cannot switch off the session cache of TLS 1.2, which skips the client's certificate.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a pair into a context that nobody uses yet; raises CertificateError when OpenSSL refuses it."""

    def refuse_password() -> str:
        raise CertificateError("tls.key: the private key is encrypted; store it without a password")

    with ExitStack() as stack:
        certificate = stack.enter_context(_as_file(pair.certificate_pem))
        key = stack.enter_context(_as_file(pair.key_pem))
        try:
            context.load_cert_chain(certificate, key, password=refuse_password)
        except ssl.SSLError as error:
            raise CertificateError(
                f"tls.crt and tls.key: OpenSSL refuses the pair ({error.reason or error}); "
                "store both of one pair"
            ) from error


def _load_client_authorities(context: ssl.SSLContext, pem: bytes) -> None:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(
            f"client CA: holds no certificate that OpenSSL reads ({error}); expected PEM"
        ) from error


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
