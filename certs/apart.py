"""Certificates made and checked in a short process of their own.

What that takes (cryptography, 11 MB) would stay in the memory of a server, which makes a certificate once or
checks one every few weeks. The rules are those of certs.self_signed and certs.validation, word for word.
"""

import pickle
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import cast

from certs.pair import CertificateError, LeafFacts, SelfSigned, TlsFiles

_HOME = Path(__file__).resolve().parent.parent
_LONGEST_SECONDS = 60
"""It takes a tenth of a second; a node that is out of CPU may need far longer."""


def self_signed(now: datetime) -> SelfSigned:
    """What certs.self_signed.self_signed makes; raises CertificateError when no process can make it."""
    return cast("SelfSigned", _call("certs.self_signed", "self_signed", now))


def validate_files(files: TlsFiles, names: Iterable[str], now: datetime) -> LeafFacts:
    """What certs.validation.validate_files finds.

    Raises CertificateError as that does, and when no process can check the files.
    """
    return cast("LeafFacts", _call("certs.validation", "validate_files", files, tuple(names), now))


def _call(module: str, function: str, *arguments: object) -> object:
    """Call a function in a process of its own; keys pass through pipes only."""
    try:
        process = subprocess.run(
            [sys.executable, "-m", "certs.worker"],
            input=pickle.dumps((module, function, arguments)),
            capture_output=True,
            cwd=_HOME,
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CertificateError(f"no process for {module} ({error}); give it memory and CPU") from error
    if process.returncode:
        said = process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise CertificateError(f"the process for {module} ended with status {process.returncode} ({said})")
    answer: object = pickle.loads(process.stdout)  # noqa: S301  our own process wrote it
    if isinstance(answer, CertificateError):
        raise answer
    return answer
