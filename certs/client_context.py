"""How a client shows the product's certificate, and trusts only servers of its CA."""

import ssl

from certs.live_context import load_pair
from certs.pair import CertificateError, TlsFiles


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """A context that shows `files.pair` and accepts servers that `files.ca_pem` vouches for.

    Raises CertificateError when OpenSSL refuses the pair or the CAs.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_pair(context, files.pair)
    try:
        context.load_verify_locations(cadata=files.ca_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{files.source}/ca.crt: holds no certificate ({error})") from error
    return context
