"""Certificates: made, checked, rotated and served.

| modules | hold |
|---|---|
| values | pairs, files and facts as plain values; CertificateError |
| contexts, validation, live_context, mounted | what a server needs, using only the standard library |
| pem, inspection, authority, leaf, self_signed | what creates and reads certificates, with cryptography |
| rotation, observation, secret_writes | the rotation: from what is stored and served to the next write |

Callers pass the time as an aware datetime; only the check of a mounted pair reads the clock, as clients do.
"""

PUBLIC = (
    "ca_file",
    "leaf",
    "live_context",
    "mounted",
    "observation",
    "pem",
    "rotation",
    "secret_writes",
    "self_signed",
    "values",
)
"""Modules that other packages import."""
