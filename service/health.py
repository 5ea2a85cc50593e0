"""Liveness, readiness and metrics over HTTP, the same for every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import APIRouter, FastAPI, Response
from prometheus_client import CollectorRegistry

from service.metrics import CONTENT_TYPE, render

Readiness = Callable[[], Mapping[str, str | None]]
"""Returns each condition of readiness with what is missing, or None where it is met."""


def health_router(
    registry: CollectorRegistry,
    readiness: Readiness,
    detail: Callable[[], str],
    stuck: Callable[[], str | None] = lambda: None,
) -> APIRouter:
    """Make the routes /livez, /readyz and /metrics.

    `detail` is one line for people, shown by /readyz beside the conditions. `stuck` returns why the process
    has to begin again, or None while it turns over.
    """
    router = APIRouter()

    @router.head("/livez", include_in_schema=False)
    @router.get("/livez", response_class=Response, summary="Whether the process turns over")
    async def livez() -> Response:
        why = stuck()
        return Response(f"{why or 'ok'}\n", media_type="text/plain", status_code=503 if why else 200)

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", response_class=Response, summary="Whether reviews can be answered, and if not why")
    async def readyz() -> Response:
        conditions = readiness()
        lines = [f"[{'+' if why is None else '-'}] {name}: {why or 'ok'}" for name, why in conditions.items()]
        ready = all(why is None for why in conditions.values())
        text = "\n".join([*lines, detail(), ""])
        return Response(text, media_type="text/plain", status_code=200 if ready else 503)

    @router.get("/metrics", response_class=Response, summary="Metrics in Prometheus' text format")
    async def metrics() -> Response:
        return Response(render(registry), headers={"content-type": CONTENT_TYPE})

    return router


def health_app(router: APIRouter) -> FastAPI:
    """Make the app of the plain port: health and metrics alone."""
    app = FastAPI(title="GPU Fraction Injector: health", openapi_url=None)
    app.include_router(router)
    return app
