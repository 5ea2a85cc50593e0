"""A background task that fails is counted and run again."""

import asyncio

from prometheus_client import CollectorRegistry

from controller.metrics import ControllerMetrics
from controller.retry import Backoff
from controller.supervision import supervise


def test_every_failure_is_counted_and_the_task_runs_again():
    registry, runs = CollectorRegistry(), []
    metrics = ControllerMetrics(registry)

    async def loop():
        runs.append(None)
        if len(runs) < 3:
            raise OSError("gone")

    failed = metrics.task_failures["publishing"].inc
    asyncio.run(supervise("publishing", loop, failed, Backoff(first_seconds=0.0)))
    assert len(runs) == 3
    counted = registry.get_sample_value(
        "fraction_injector_background_task_failures_total", {"task": "publishing"}
    )
    assert counted == 2
