"""A listener's TLS context whose certificate can change while it serves."""

import ssl

from certs.contexts import load_authorities, load_pair
from certs.values import KeyPair


class LiveTlsContext:
    """Serves the newest pair to every new connection; open connections keep theirs.

    The listener holds no key itself. OpenSSL calls its sni_callback with or without a server name in the
    handshake, and the callback returns a context that never changes afterwards. A context in use must not
    be loaded again: between certificate and key, or with a mismatched pair, every handshake fails.
    Handshakes are refused before the first `swap`.
    """

    def __init__(self, *, verify_clients: bool = False) -> None:
        """With `verify_clients`, only clients with a certificate of the given client CAs are accepted."""
        self._verify_clients = verify_clients
        self._newest: ssl.SSLContext | None = None
        self.listener = _empty_context(verify_clients=verify_clients)
        """The context of the server's socket: one object for the life of the process."""
        self.listener.sni_callback = self._hand_out

    @property
    def serving(self) -> bool:
        """Whether there is a pair to serve."""
        return self._newest is not None

    def swap(self, pair: KeyPair, client_ca_pem: bytes | None = None) -> None:
        """Serve `pair` from the next handshake on; safe to call from any thread.

        `client_ca_pem` goes with `verify_clients`: without it no client is accepted. Raises
        CertificateError if OpenSSL rejects the pair or the client CAs; the previous pair then stays.
        """
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
    """Return a context without resumption: a session could otherwise outlive a swap of pair or client CAs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    if verify_clients:
        # Mode and flags come from the listener, the client CAs from the context that the callback returns.
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # Python cannot disable the session cache of TLS 1.2, which skips the client's certificate.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
