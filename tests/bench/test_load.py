"""Load on a server over TLS."""

import pytest

from bench import client


def test_a_load_with_a_failed_request_measures_nothing(monkeypatch: pytest.MonkeyPatch):
    async def failing(*_):
        return client.Answers(1, ["ValueError: 500"])

    monkeypatch.setattr(client, "closed_loop", failing)
    with pytest.raises(RuntimeError, match="1 requests failed: ValueError: 500"):
        client.press(1, [b"{}"], 16, 1)


def test_reviews_go_to_the_path_that_an_api_server_calls():
    assert client._request(b"{}").startswith(b"POST /mutate?timeout=5s HTTP/1.1\r\n")
