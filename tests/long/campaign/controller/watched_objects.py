"""The objects of a made-up API server, and a ledger that watches them as the controller does."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from cluster.informer import Watcher
from cluster.object_reader import StaleError
from controller.watch.gpu_node import gpu_nodes
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes as node_resource
from controller.watch.resources import pods as pod_resource
from modes.resource_names import ResourceNames
from tests.long.campaign.controller.cluster import Object

NAMES = ResourceNames()
LATE = 6
"""Events that may come once more, after others."""


class WatchedObjects:
    """An API server, and the watches of a ledger store on it."""

    def __init__(self, store: LedgerStore, loop: asyncio.AbstractEventLoop) -> None:
        self.store, self._loop = store, loop
        self._objects: dict[str, dict[tuple[str, str], Object]] = {
            "nodes": {},
            "pods": {},
            "gpunodes": {},
        }
        resources: dict[str, Any] = {
            "nodes": (node_resource(NAMES), self.store.watched_nodes),
            "pods": (pod_resource(NAMES, with_mig=True), self.store.watched_pods),
            "gpunodes": (gpu_nodes(), self.store.watched_cards),
        }
        self._readers = {name: resource.reader for name, (resource, _) in resources.items()}
        self._watchers = {
            name: Watcher(self, resource, watched, self)  # type: ignore[arg-type]
            for name, (resource, watched) in resources.items()
        }
        self._is_known = dict.fromkeys(self._objects, True)
        """Whether all events of a resource came, each once and in order, since its last list."""
        self._late: list[tuple[str, bytes]] = []
        self.last: Any = None
        """What was done last, to show what was found."""

    # As an API server, and as who counts troubles.

    async def request(self, _method: str, path: str, *, query: Any) -> bytes:
        """Give a page of a list."""
        found = list(self._objects[path.rpartition("/")[2]].values())
        begin = int(query.get("continue", 0))
        end = begin + min(query["limit"], 7)
        metadata = {"resourceVersion": "1"} | ({"continue": str(end)} if end < len(found) else {})
        return msgspec.json.encode({"items": found[begin:end], "metadata": metadata})

    def listed(self, _resource: str) -> None:
        """Whole lists need no counting."""

    def failed(self, _resource: str, _reason: str) -> None:
        """Nor do broken ones."""

    def _set(self, name: str, found: Object, kind: str) -> int:
        metadata = found["metadata"]
        self._objects[name][metadata.get("namespace", ""), metadata["name"]] = found
        return self._take(name, msgspec.json.encode({"type": kind, "object": found}))

    def _drop(self, name: str, key: tuple[str, str]) -> int:
        found = self._objects[name].pop(key, None)
        names = {"name": key[1]} | ({"namespace": key[0]} if key[0] else {})
        found = {"metadata": names} if found is None else found
        return self._take(name, msgspec.json.encode({"type": "DELETED", "object": found}))

    def _take(self, name: str, line: bytes) -> int:
        """Take in one line of a watch, as a watcher does: where it cannot go on, all is listed again."""
        self.last = line
        self._late = [*self._late[1 - LATE :], (name, line)]
        try:
            self._watchers[name]._take(line)
        except StaleError:
            self._list(name)
        return 1

    def _list(self, name: str) -> None:
        self._loop.run_until_complete(self._watchers[name]._list())
        self._is_known[name] = True
