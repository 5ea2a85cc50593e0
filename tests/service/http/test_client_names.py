"""Which certificates are good for a name that a listener serves."""

import ssl
from datetime import UTC, datetime

import pytest
import uvloop

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.live_context import LiveTlsContext
from service.http.connection import is_admitted
from testbed.listening import GET, serving
from tests.certs.handshakes import presenting

LOOP = uvloop.new_event_loop


@pytest.mark.parametrize(
    ("kind", "name", "admitted"),
    [
        ("DNS", "Fraction-Webhook.gpu.SVC", True),
        ("DNS", "fraction-controller.gpu.svc", False),
        ("DNS", "*.gpu.svc", False),
        ("DNS", "fraction-webhook.gpu.svc\x00.evil.example", False),
        ("DNS", "x.fraction-webhook.gpu.svc", False),
        ("URI", "fraction-webhook.gpu.svc", False),
        ("commonName", "fraction-webhook.gpu.svc", False),
    ],
)
def test_a_client_is_known_by_a_whole_dns_name_of_its_certificate(kind, name, admitted):
    certificate = {"subjectAltName": (("DNS", "other"), (kind, name))}
    assert is_admitted(certificate, frozenset({"fraction-webhook.gpu.svc"})) is admitted


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("names", "status"), [(["webhook.gpu.svc"], 200), (["localhost", "webhook.gpu.svc.x"], 403)]
)
@pytest.mark.parametrize("path", [b"/livez", b"/v1/placements", b"/nothing"])
async def test_every_route_is_for_the_named_clients_of_the_ca(tmp_path, names, status, path):
    authority = make_authority(NOW)
    context = LiveTlsContext(verify_clients=True)
    context.swap(make_leaf(authority, ["localhost"], NOW), authority.certificate_pem)
    client = presenting(authority.certificate_pem, make_leaf(authority, names, NOW), tmp_path / "client")
    async with serving(tls=context.listener, clients=frozenset({"webhook.gpu.svc"})) as served:
        asking = await served.connect(ssl=client, server_hostname="localhost")
        answer = await asking.ask(GET.replace(b"/livez", path))
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert (served.app.asked != []) == (status == 200)
        if status == 403:
            assert await asking.ended() == b""


async def test_nobody_without_a_certificate_reaches_a_route():
    authority = make_authority(NOW)
    context = LiveTlsContext(verify_clients=True)
    context.swap(make_leaf(authority, ["localhost"], NOW), authority.certificate_pem)
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    async with serving(tls=context.listener, clients=frozenset({"localhost"})) as served:
        asking = await served.connect(ssl=trust, server_hostname="localhost")
        try:
            answer = await asking.ask()
        except OSError:
            answer = b""
        assert (answer, served.app.asked) == (b"", [])
