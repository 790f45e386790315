"""The TLS settings of the server."""

from __future__ import annotations

import ssl

from fathom.api.auth.certificates import Pki, PkiError
from fathom.api.auth.tls_names import tell_authority

# For TLS 1.2; 1.3 has its own. AES-128-GCM first: the fastest where the CPU has AES, which is everywhere a
# server runs. Forward secrecy and authenticated encryption only.
CIPHERS = "ECDHE+AES128+AESGCM:ECDHE+CHACHA20:ECDHE+AES256+AESGCM"


def without_authority() -> ssl.SSLContext:
    """For a server whose certificate, and whose clients' CA, are loaded later. Clients may show a certificate
    of that CA, and need not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def server_context(pki: Pki) -> ssl.SSLContext:
    """A client certificate is optional (tokens exist), but if one is sent it must be signed by our CA.
    Session tickets stay on: a resumed session remembers the certificate, and `Authenticator` checks its
    expiry on every request, so resumption saves a handshake without extending a credential."""
    context = without_authority()
    try:
        context.load_cert_chain(pki.server_file)
        context.load_verify_locations(pki.ca_file)
        tell_authority(context, pki.ca_file)
    except (ssl.SSLError, OSError) as error:
        raise PkiError(
            f"{pki.server_file} cannot be used for TLS ({error}); remove it and start again"
        ) from None
    return context
