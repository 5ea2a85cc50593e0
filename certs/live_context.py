"""A listener's TLS context whose certificate changes while it serves."""

import ssl

from certs.contexts import load_authorities, load_pair
from certs.values import KeyPair


class LiveTlsContext:
    """Serves the newest pair to every new connection; connections that are open keep theirs.

    The listener holds no key itself: its sni_callback, which OpenSSL calls with or without a server
    name in the handshake, hands out a context that nobody changes any more. A live context must not
    be loaded a second time: between certificate and key, or with a mismatched pair, every handshake fails.
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
            load_authorities(fresh, client_ca_pem, "client CA")
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
        # Mode and flags are taken from the listener, the client CAs from the context handed out.
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # Python cannot switch off the session cache of TLS 1.2, which skips the client's certificate.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
