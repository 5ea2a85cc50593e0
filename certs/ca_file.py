"""The file from which clients read a CA."""

import os
import tempfile
from pathlib import Path


def write_ca_file(path: Path, ca_pem: bytes) -> None:
    """Write the CA for clients to read (mode 0644), completely or not at all.

    Raises OSError with the path if the directory is missing or not writable.
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
