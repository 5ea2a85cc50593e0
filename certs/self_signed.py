"""The certificate of a standalone webhook: made at start, in memory, for this machine."""

import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.pair import KeyPair


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """A leaf for localhost, 127.0.0.1 and ::1, and the CA to trust; the CA's key is thrown away."""

    ca_pem: bytes
    pair: KeyPair


def self_signed(now: datetime) -> SelfSigned:
    """A new CA and its one leaf, valid 30 days from `now` (aware)."""
    authority = make_authority(now)
    return SelfSigned(authority.certificate_pem, make_leaf(authority, LOCAL_NAMES, now))


def write_ca_file(path: Path, ca_pem: bytes) -> None:
    """Write the CA for clients to read (mode 0644), whole or not at all.

    Raises OSError, with the path in it, when the directory is missing or not writable.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(ca_pem)
            os.fchmod(file.fileno(), 0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
