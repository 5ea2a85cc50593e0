"""Pods that users create, one labelled and one unlabelled a second, and what they saw of it."""

import itertools
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from testbed.api import Api, Object
from testbed.registration import LABEL
from tests.real_nodes.pods import labelled

PERIOD_S = 1.0
LIFE_S = 6
RUNS_EVERY = 3
"""Of labelled pods; the others are dry runs, which are admitted the same way and start no container."""
NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Creation:
    """One create: whether of a labelled pod, and the error where there was one."""

    labelled: bool
    error: str


def task(name: str, fraction: str = "0.125", command: str = "sleep 3600", **spec: Any) -> Object:
    """A labelled pod that runs on these nodes."""
    made = labelled(name, fraction, command=["sh", "-c", command])
    made["metadata"]["labels"]["created-by"] = "load"
    made["spec"] |= {"restartPolicy": "Never", "automountServiceAccountToken": False, **spec}
    return made


def plain(name: str) -> Object:
    """A pod without the label, which is created and never started."""
    pod = task(name)
    del pod["metadata"]["labels"][LABEL]
    pod["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    return pod


class Load:
    """Creates pods while the context is open, and deletes each after some seconds.

    Attributes:
        creations: What became of each create.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self.creations: list[Creation] = []
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._create, kwargs={"labelled": True}),
            threading.Thread(target=self._create, kwargs={"labelled": False}),
            threading.Thread(target=self._delete),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
        self._delete_older(0)

    def _create(self, *, labelled: bool) -> None:
        for turn in itertools.count():
            if self._done.wait(PERIOD_S):
                return
            name = f"load-{next(NUMBERS)}"
            pod = task(name, command="sleep 2") if labelled else plain(name)
            is_dry = labelled and turn % RUNS_EVERY > 0
            error = self._api.refusal(pod, self._namespace, dry_run=is_dry)
            self.creations.append(Creation(labelled, error))

    def _delete(self) -> None:
        while not self._done.wait(1):
            self._delete_older(LIFE_S)

    def _delete_older(self, seconds: float) -> None:
        now = time.time()
        for pod in self._api.list("Pod", self._namespace, labels="created-by=load"):
            created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
            if now - created >= seconds and "deletionTimestamp" not in pod["metadata"]:
                path = f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}"
                self._api.call("DELETE", path, query={"gracePeriodSeconds": "1"})

    def failed(self, *, labelled: bool) -> list[str]:
        """What users read where a create failed."""
        return [c.error for c in self.creations if c.error and c.labelled == labelled]
