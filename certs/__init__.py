"""Certificates: CA and leaf making, validation, and TLS contexts that change while they serve.

Nothing in here reads a clock: the time comes in as an aware datetime. Only the watcher, the
self-signed CA file and the live context touch files or sockets.
"""

from certs.authority import make_authority
from certs.client_context import client_context
from certs.leaf import LOCAL_NAMES, make_leaf, service_names
from certs.live_context import LiveTlsContext
from certs.observation import Observation, SecretContent, Stored, observe
from certs.pair import CertificateError, KeyPair
from certs.rotation import Action, Change, Phase, RotationSettings, Wait, decide, phase
from certs.secret_writes import AuthoritySecretWrite, CaBundleWrite, TlsSecretWrite, Write, prepare_write
from certs.self_signed import SelfSigned, self_signed, write_ca_file
from certs.validation import LeafFacts, TlsFiles, validate_files
from certs.watcher import MountedPair, MountRules, read_tls_files

__all__ = [
    "LOCAL_NAMES",
    "Action",
    "AuthoritySecretWrite",
    "CaBundleWrite",
    "CertificateError",
    "Change",
    "KeyPair",
    "LeafFacts",
    "LiveTlsContext",
    "MountRules",
    "MountedPair",
    "Observation",
    "Phase",
    "RotationSettings",
    "SecretContent",
    "SelfSigned",
    "Stored",
    "TlsFiles",
    "TlsSecretWrite",
    "Wait",
    "Write",
    "client_context",
    "decide",
    "make_authority",
    "make_leaf",
    "observe",
    "phase",
    "prepare_write",
    "read_tls_files",
    "self_signed",
    "service_names",
    "validate_files",
    "write_ca_file",
]
