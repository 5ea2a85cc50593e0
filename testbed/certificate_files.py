"""Certificate files as a kubelet, or a careless hand, leaves them in a directory."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.values import KeyPair


def write_pair(folder: Path, pair: KeyPair) -> tuple[Path, Path]:
    """Plain files, one after the other."""
    folder.mkdir(exist_ok=True)
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    return certificate, key


def write_tls(folder: Path, authority: KeyPair | None = None, names: Sequence[str] = LOCAL_NAMES) -> Path:
    """A directory as a mounted TLS Secret, good for this machine."""
    now = datetime.now(UTC)
    authority = authority or make_authority(now)
    write_pair(folder, make_leaf(authority, names, now))
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    return folder


def mount_like_kubelet(directory: Path, generation: str, content: dict[str, bytes]) -> None:
    """What the kubelet's atomic writer does: a new folder, then one rename of the symlink `..data`."""
    directory.mkdir(exist_ok=True)
    folder = directory / f"..{generation}"
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    coming = directory / "..data_tmp"
    coming.symlink_to(folder.name)
    coming.replace(directory / "..data")
    for name in content:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(Path("..data") / name)


def certificate_of(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate_pem)


def der_of(pair: KeyPair) -> bytes:
    return certificate_of(pair).public_bytes(Encoding.DER)
