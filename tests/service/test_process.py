"""What all our processes have in common."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx

from service.background import BackgroundTasks
from service.health import health_app
from service.process import Process
from service.served_certificate import ServedCertificate


def answer(process, path):
    async def ask():
        transport = httpx.ASGITransport(health_app(process.router(lambda: "all is well")))
        async with httpx.AsyncClient(transport=transport, base_url="http://process") as http:
            return await http.get(path)

    return asyncio.run(ask())


def test_it_is_ready_when_all_conditions_are_met_in_their_order():
    process, missing = Process("ours", [], 0), {"ledger": "no node was seen yet"}
    process.ready_when(certificate=lambda: None, ledger=lambda: missing.get("ledger"))
    unready = answer(process, "/readyz")
    assert (unready.status_code, "[-] ledger: no node was seen yet\n" in unready.text) == (503, True)
    missing.clear()
    ready = answer(process, "/readyz")
    assert ready.status_code == 200
    assert ready.text == "[+] certificate: ok\n[+] ledger: ok\n[+] serving: ok\nall is well\n"


def test_the_plain_port_has_metrics_in_prometheus_format_and_nothing_that_tells_more():
    process = Process("ours", [], 0)
    metrics = answer(process, "/metrics")
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "process_resident_memory_bytes " in metrics.text
    assert {answer(process, path).status_code for path in ("/openapi.json", "/docs", "/mutate", "/")} == {404}


def test_it_is_alive_until_a_task_is_stuck_and_says_which(monkeypatch):
    process = Process("ours", [], 0)
    assert answer(process, "/livez").text == "ok\n"
    monkeypatch.setattr(BackgroundTasks, "stuck", "election: no heartbeat for 31 s")
    stuck = answer(process, "/livez")
    assert (stuck.status_code, stuck.text) == (503, "election: no heartbeat for 31 s\n")


def test_a_certificate_is_in_the_metrics_from_the_start():
    process = Process("ours", [], 0)
    certificate, sample = ServedCertificate(process.registry, "/tls"), process.registry.get_sample_value
    ends, refused = (
        "fraction_injector_certificate_expiry_timestamp_seconds",
        "fraction_injector_certificate_swap_errors_total",
    )
    assert (sample(ends), sample(refused)) == (0.0, 0.0)
    certificate.served(SimpleNamespace(not_after=datetime.fromtimestamp(1000, UTC)))
    certificate.refused(ValueError("torn"))
    assert (sample(ends), sample(refused)) == (1000.0, 1.0)
