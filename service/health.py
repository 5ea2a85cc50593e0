"""Liveness, readiness and metrics over HTTP, identical for every process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, FastAPI, Response

from service.probes import ProbeResponse, Probes


def health_router(probes: Probes) -> APIRouter:
    """Make the routes /livez, /readyz and /metrics."""
    router = APIRouter()
    for path, probe in probes.paths.items():
        router.add_api_route(path, _endpoint(probe), methods=["GET", "HEAD"])
    return router


def health_app(router: APIRouter) -> FastAPI:
    """Make the app of the plain port: only health and metrics."""
    app = FastAPI(title="GPU Fraction Injector: health", openapi_url=None)
    app.include_router(router)
    return app


def _endpoint(probe: Callable[[], ProbeResponse]) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        found = probe()
        return Response(found.body, status_code=found.status, headers={"content-type": found.content_type})

    return answer
