"""/livez, /readyz and /metrics, the same for every process."""

import asyncio

import httpx
import pytest
from prometheus_client import Counter

from service.health import health_app, health_router
from service.metrics import new_registry


class Process:
    def __init__(self):
        self.conditions = {"certificate": None, "ledger": None}
        self.registry = new_registry()
        Counter("things", "Things that were done.", registry=self.registry)
        router = health_router(self.registry, lambda: self.conditions, lambda: "policies abc: in force")
        self.app = health_app(router)

    def get(self, path):
        async def ask():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://process") as http:
                return await http.get(path)

        return asyncio.run(ask())


@pytest.fixture
def process():
    return Process()


def test_unready_with_the_reason_when_one_is_not_and_alive_all_the_same(process):
    process.conditions["ledger"] = "no node was seen yet"
    response = process.get("/readyz")
    assert response.status_code == 503
    assert response.text == (
        "[+] certificate: ok\n[-] ledger: no node was seen yet\npolicies abc: in force\n"
    )
    assert process.get("/livez").text == "ok\n"


def test_metrics_are_in_prometheus_text_format(process):
    response = process.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "things_total 0.0\n" in response.text
    assert "process_resident_memory_bytes " in response.text


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc", "/mutate", "/"])
def test_there_is_nothing_else(process, path):
    assert process.get(path).status_code == 404
