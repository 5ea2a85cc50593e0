"""Bad input, good input and odd clients, against the real process over TLS."""

import select

import pytest

from tests.webhook.running import ApiServer, client, connect, head, read_all, webhook
from tests.webhook.support import UID, pod, review_of

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


@pytest.mark.parametrize("body", [b"", b"hello", b"[" * 100_000, b'{"request":{}}', b"\x1f\x8b\x08\x00gzip"])
def test_what_is_no_review_gets_a_400_in_one_line(http, body):
    response = http.post("/mutate", content=body, headers=JSON)
    assert response.status_code == 400
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text.endswith("\n")
    assert response.text.count("\n") == 1
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


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc", "/nothing"])
def test_no_port_describes_itself(running, http, path):
    urls = (path, f"http://127.0.0.1:{running.health_port}{path}")
    assert [http.get(url).status_code for url in urls] == [404, 404]
