"""Liveness, readiness and metrics over HTTP, identical for every process."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Response

from service.probes import ProbeResponse, Probes


def health_router(probes: Probes) -> APIRouter:
    """Make the routes /livez, /readyz and /metrics."""
    router = APIRouter()

    @router.head("/livez", include_in_schema=False)
    @router.get("/livez", response_class=Response, summary="Whether the process works")
    async def livez() -> Response:
        return _response(probes.livez())

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", response_class=Response, summary="Whether reviews can be answered; if not, why")
    async def readyz() -> Response:
        return _response(probes.readyz())

    @router.get("/metrics", response_class=Response, summary="Metrics in Prometheus' text format")
    async def metrics() -> Response:
        return _response(probes.metrics())

    return router


def health_app(router: APIRouter) -> FastAPI:
    """Make the app of the plain port: only health and metrics."""
    app = FastAPI(title="GPU Fraction Injector: health", openapi_url=None)
    app.include_router(router)
    return app


def _response(answer: ProbeResponse) -> Response:
    return Response(answer.body, status_code=answer.status, headers={"content-type": answer.content_type})
