"""Certificates: made, checked, rotated and served.

| modules | hold |
|---|---|
| values | pairs, files and facts as plain values; CertificateError |
| contexts, validation, live_context, mounted | what a server needs, with the standard library alone |
| pem, inspection, authority, leaf, self_signed | what makes and reads certificates, with cryptography |
| rotation, observation, secret_writes | the rotation: from what is stored and served to the next write |

The time comes in as an aware datetime; only the check of a mounted pair reads the clock, as its clients do.
"""
