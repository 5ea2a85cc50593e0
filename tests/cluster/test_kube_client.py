"""What is said of an API server that does not answer."""

import asyncio
import socket
import ssl

import aiohttp
import pytest
import trustme

from cluster.endpoint import Endpoint
from cluster.kube_client import TRANSPORT_ERRORS, ApiServer, TooLargeError, transport_cause, transport_problem

ADDRESS = "check its address, and that it can be reached from here"


async def hang_up(_, writer):
    writer.write(b"no HTTP\r\n\r\n")
    writer.close()


async def refuse(_, writer):
    writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    writer.close()


async def problem_of(url, proxy=None):
    api = ApiServer(Endpoint(url, proxy=proxy))
    with pytest.raises(TRANSPORT_ERRORS) as raised:
        await api.request("GET", "/")
    await api.close()
    return transport_problem(raised.value)


async def problem(scheme, server_tls=None):
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=server_tls)
    port = server.sockets[0].getsockname()[1]
    async with server:
        return (await problem_of(f"{scheme}://127.0.0.1:{port}")).replace(f":{port}", "")


def test_a_port_without_tls_or_http_and_a_foreign_certificate_are_named():
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(own)
    files = "check certificate-authority and tls-server-name of the kubeconfig"
    foreign = "its certificate is not accepted: unable to get local issuer certificate"
    http = f"the API server does not answer (what answers is no HTTP server): {ADDRESS}"
    assert asyncio.run(problem("http")) == http
    no_tls = f"127.0.0.1 does not answer (no TLS connection: wrong version number): {ADDRESS}"
    assert asyncio.run(problem("https")) == no_tls
    assert asyncio.run(problem("https", own)) == f"127.0.0.1 does not answer ({foreign}): {files}"


def test_a_closed_port_a_late_answer_and_a_large_one_are_told_apart():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{unused.getsockname()[1]}"
        assert (
            asyncio.run(problem_of(f"http://{at}")) == f"{at} does not answer (Connection refused): {ADDRESS}"
        )
    late = f"the API server does not answer (timeout): {ADDRESS}"
    assert transport_problem(TimeoutError()) == late
    alert = "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:2580)"
    assert transport_cause(aiohttp.ClientOSError(1, alert)) == alert  # 1 is OpenSSL's, and no errno
    assert transport_problem(TooLargeError()) == "the answer is larger than 16 MiB"


def test_what_a_proxy_refuses_is_told():
    async def told():
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await problem_of("https://api.example", f"http://127.0.0.1:{port}")

    why = "the proxy answered 407 Proxy Authentication Required"
    assert asyncio.run(told()) == f"the API server does not answer ({why}): {ADDRESS}"
