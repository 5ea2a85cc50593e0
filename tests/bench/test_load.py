"""Load on a server over TLS, by wrk or by our own client."""

import stat
from pathlib import Path

import pytest

from bench import load
from bench.client import Answers, _request

WRK = """#!/bin/sh
[ "$1" = -v ] && echo "wrk 4.2.0 [epoll] Copyright" && exit 1
echo "Running 1s test"
echo '{"requests": 3000, "microseconds": 1500000, "errors": ERRORS, "p50": 800, "p99": 2500}'
"""


@pytest.fixture
def fake_wrk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(errors: int) -> None:
        file = tmp_path / "wrk"
        file.write_text(WRK.replace("ERRORS", str(errors)))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(load, "WRK", str(file))

    return install


def test_what_wrk_says_becomes_rates_and_milliseconds(fake_wrk):
    fake_wrk(errors=0)
    assert load.press(1, [b"{}"], 16, 1) == load.Load(3000, 2000.0, 0.8, 2.5)


def test_every_load_calls_the_webhook_as_an_api_server_does(tmp_path: Path, fake_wrk):
    fake_wrk(errors=0)
    wrk = Path(load.WRK or "")
    wrk.write_text(wrk.read_text().replace('echo "Running', f'echo "$@" > {tmp_path}/said; echo "Running'))
    load.press(443, [b"{}"], 16, 1)
    assert "https://127.0.0.1:443/mutate?timeout=5s" in (tmp_path / "said").read_text().split()
    assert _request(b"{}").startswith(b"POST /mutate?timeout=5s HTTP/1.1\r\n")


def test_a_load_with_a_failed_request_measures_nothing(fake_wrk):
    fake_wrk(errors=2)
    with pytest.raises(RuntimeError, match="2 of 3000 requests failed"):
        load.press(1, [b"{}"], 16, 1)


def answered_from(monkeypatch: pytest.MonkeyPatch, least: float) -> None:
    """A server that answers nothing in a load of less than so many seconds."""

    def pressed(_port, _bodies, connections, seconds):
        return load.Load(connections if seconds >= least else 0, 1, 1, 1)

    monkeypatch.setattr(load, "_press", pressed)


def test_a_load_lasts_longer_while_nothing_is_answered(monkeypatch: pytest.MonkeyPatch):
    answered_from(monkeypatch, 3)
    assert load.press(1, [b"{}"], 16, 1).requests == 16


def test_a_load_without_any_answer_measures_nothing(monkeypatch: pytest.MonkeyPatch):
    answered_from(monkeypatch, 100)
    with pytest.raises(RuntimeError, match="nothing was answered within 16 s"):
        load.press(1, [b"{}"], 16, 1)


def test_wrk_is_named_with_its_version(fake_wrk):
    fake_wrk(errors=0)
    assert load.tool() == "wrk 4.2.0"


def test_without_wrk_our_own_client_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load, "WRK", None)
    assert load.tool().startswith("our own client")


def test_a_percentile_is_a_latency_that_was_measured():
    answers = Answers(1, [0.004, 0.001, 0.003, 0.002])
    assert [answers.percentile(per_cent) for per_cent in (0, 50, 99)] == [0.001, 0.003, 0.004]
