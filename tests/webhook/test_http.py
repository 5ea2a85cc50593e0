"""Bad input, good input and odd clients, against the real process over TLS."""

import json
import select
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection

import httpx
import pytest

from tests.webhook.running import MAX_SECONDS, ApiServer, client, connect, head, raw, read_all, webhook
from tests.webhook.support import UID, container, pod, review_of

JSON = {"content-type": "application/json"}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("webhook")
    api_server = ApiServer(folder)
    with webhook(folder, "--client-ca-file", api_server.ca_file) as process:
        process.strangers = list(api_server.strangers(folder / "ca.pem"))
        process.trust = api_server.trusting(folder / "ca.pem")
        yield process


@pytest.fixture
def http(running):
    with client(running) as one:
        yield one


def is_alive(http):
    """It still answers as it should: the last thing each bad input is followed by."""
    response = http.post("/mutate", json=review_of(pod(fraction=None), dryRun=True))
    return response.status_code == 200 and response.json()["response"]["allowed"]


def logged(running, http, uid):
    """Where the line of one more review stands in the log: all that was done before is in it by then."""
    assert http.post("/mutate", json=review_of(pod(fraction=None), uid=uid)).status_code == 200
    line = running.wait_for(lambda event: event.get("uid") == uid)
    return running.events().index(line)


def test_a_labelled_pod_is_injected_over_tls(http):
    response = http.post("/mutate?timeout=5s", json=review_of(pod(), dryRun=True))
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    answer = response.json()["response"]
    assert (answer["uid"], answer["allowed"], answer["patchType"]) == (UID, True, "JSONPatch")


def test_the_certificate_is_good_for_localhost_and_loopback(running):
    for host in ("localhost", "127.0.0.1"):
        with connect(running, host) as connection:
            assert connection.version() == "TLSv1.3"


def test_a_client_that_does_not_trust_the_ca_refuses(running):
    with (
        client(running, ssl.create_default_context()) as other,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        other.get("/livez")


def test_with_a_client_ca_nobody_but_the_api_server_gets_in(running):
    for trust in running.strangers:
        with client(running, trust) as stranger, pytest.raises(httpx.TransportError):
            stranger.get("/livez")


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"[" * 100_000, b'{"request":{}}', b"\x1f\x8b\x08\x00gzip"],
)
def test_what_is_no_review_gets_a_400_in_one_line(http, body):
    response = http.post("/mutate", content=body, headers=JSON)
    assert response.status_code == 400
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text.endswith("\n")
    assert response.text.count("\n") == 1
    assert is_alive(http)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_get_a_405(http, method):
    response = http.request(method, "/mutate")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert is_alive(http)


def test_100_mib_in_chunks_get_a_413_long_before_their_end(running, http):
    chunk = b"%x\r\n" % MIB + b" " * MIB + b"\r\n"
    sent = 0
    with connect(running) as connection:
        connection.sendall(head(extra="Transfer-Encoding: chunked\r\n"))
        while sent < 100 and not select.select([connection], [], [], 0)[0]:
            try:
                connection.sendall(chunk)
            except OSError:
                break
            sent += 1
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert 7 <= sent < 50
    assert is_alive(http)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /mutate HTTP/9.9\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_no_5xx(running, http, nonsense):
    answer = raw(running, nonsense)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert is_alive(http)


def test_a_client_that_hangs_up_in_the_middle_leaves_no_trace(running, http):
    before = logged(running, http, "before-hanging-up")
    with connect(running) as connection:
        connection.sendall(head(1000) + b"{")
    with connect(running) as connection:
        connection.sendall(head()[:20])
    after = logged(running, http, "after-hanging-up")
    assert running.events()[before + 1 : after] == []


def test_plain_http_on_the_tls_port_is_turned_away(running, http):
    with (
        httpx.Client(trust_env=False, timeout=MAX_SECONDS) as plain,
        pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)),
    ):
        plain.get(f"http://localhost:{running.port}/livez")
    assert is_alive(http)


def test_one_connection_is_kept_for_all_reviews_good_and_bad(running):
    good = json.dumps(review_of(pod(fraction=None))).encode()
    connection = HTTPSConnection("localhost", running.port, context=running.trust)
    sockets, statuses = set(), []
    for body in (good, b"x", good):
        connection.request("POST", "/mutate", body, JSON)
        sockets.add(connection.sock)
        response = connection.getresponse()
        statuses.append(response.status)
        response.read()
    connection.close()
    assert (statuses, len(sockets)) == ([200, 400, 200], 1)


def test_many_clients_at_once_each_get_their_own_answer(running):
    together = threading.Barrier(8)

    def ask(number):
        with client(running) as one:
            together.wait()
            replies = [
                one.post("/mutate", json=review_of(pod(), uid=f"{number}-{turn}", dryRun=True)).json()
                for turn in range(5)
            ]
        return [reply["response"]["uid"] for reply in replies]

    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(ask, range(8)))
    assert answered == [[f"{number}-{turn}" for turn in range(5)] for number in range(8)]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/livez", "/readyz"])
@pytest.mark.parametrize("plain", [False, True])
def test_health_answers_on_both_ports(running, http, method, path, plain):
    url = f"http://127.0.0.1:{running.health_port}{path}" if plain else path
    response = http.request(method, url)
    assert response.status_code == 200
    if method == "HEAD":
        assert response.content == b""


def test_readiness_says_which_policies_are_in_force(running, http):
    text = http.get("/readyz").text
    *conditions, policies = text.splitlines()
    assert conditions == ["[+] certificate: ok", "[+] policies: ok", "[+] port: ok", "[+] serving: ok"]
    assert policies.startswith("policies ")
    assert policies.endswith(": in force")


def test_the_plain_port_has_no_mutate(running, http):
    url = f"http://127.0.0.1:{running.health_port}/mutate"
    assert http.post(url, json=review_of(pod())).status_code == 404


def test_metrics_count_what_was_answered(running, http):
    def counted():
        text = http.get("/metrics").text
        wanted = 'fraction_injector_reviews_total{decision="denied",reason="label-not-allowed"} '
        (line,) = [line for line in text.splitlines() if line.startswith(wanted)]
        return float(line.removeprefix(wanted))

    before = counted()
    http.post("/mutate", json=review_of(pod(fraction="0.5")))
    assert counted() == before + 1
    assert "fraction_injector_certificate_expiry_timestamp_seconds 1." in http.get("/metrics").text


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc", "/nothing"])
def test_no_port_describes_itself(running, http, path):
    urls = (path, f"http://127.0.0.1:{running.health_port}{path}")
    assert [http.get(url).status_code for url in urls] == [404, 404]


def test_nothing_of_a_pod_is_logged_by_the_process(running, http):
    canary = "c4n4ry-0f-the-pr0cess"
    secret = container(canary, args=[canary], env=[{"name": canary, "value": canary}])
    found = pod(containers=[secret], metadata={"name": canary, "annotations": {canary: canary}})
    for body in (found, {**found, "spec": canary}, pod(fraction=canary, containers=[secret])):
        http.post("/mutate", json=review_of(body, name=canary, dryRun=True))
    http.post("/mutate", content=f'{{"request": "{canary}"}}', headers=JSON)
    http.post("/mutate", content=canary, headers=JSON)
    http.get(f"/{canary}", headers={canary: canary})
    raw(running, canary.encode() + b"\r\n\r\n")
    logged(running, http, "after-the-canary")
    assert canary not in "".join(running.stderr)
