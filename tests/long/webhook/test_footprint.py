"""What the webhook's process keeps in memory: of each library only what serves."""

import re
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from testbed.certificate_files import mount_like_kubelet
from tests.webhook.running import Running, command

NEVER = {"aiohttp", "controller", "cryptography", "httpx", "jsonpatch", "kubernetes", "rich"}
"""cryptography is worth 11 MB, and only a self-signed webhook has it; the Kubernetes client 10, pages 4."""


def loaded(*options):
    """Packages that the process has imported when it serves, as the interpreter tells them."""
    python, *rest = command("--stop-delay", "0", *options)
    running = Running([python, "-X", "importtime", *rest])
    assert running.stop() == 0
    names = re.findall(r"^import time:[ \d]+\|[ \d]+\| +(\w+)", "".join(running.stderr), re.MULTILINE)
    return set(names)


def test_a_self_signed_webhook_alone_loads_what_makes_certificates(tmp_path):
    packages = loaded("--self-signed", "--ca-file", tmp_path / "ca.pem")
    assert {"fastapi", "uvicorn", "webhook"} <= packages
    assert packages & NEVER == {"cryptography"}


@pytest.mark.parametrize("names", [LOCAL_NAMES, ("elsewhere",)], ids=["served", "refused"])
def test_a_mounted_certificate_is_checked_with_the_standard_library(tmp_path, names):
    now = datetime.now(UTC)
    authority = make_authority(now)
    pair = make_leaf(authority, names, now)
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": authority.certificate_pem}
    mount_like_kubelet(tmp_path / "tls", "1", content)
    packages = loaded("--tls-dir", tmp_path / "tls")
    assert {"fastapi", "uvicorn", "webhook"} <= packages
    assert packages & NEVER == set()
