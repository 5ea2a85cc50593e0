"""A watch of all ResourceClaims of a namespace that adds up what they hold of each card, change by change."""

import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from kube.dra import SHARES_OF_CARD
from kube.quantity import parse_quantity
from testbed.api import Object
from testbed.cluster import Cluster
from testbed.components import ADMIN_TOKEN
from testbed.process import eventually

Card = tuple[str, str]
"""Pool, which is the node, and device."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one claim holds of one card."""

    card: Card
    mib: int
    """Rounded up."""
    floor_mib: int
    """As our ledger says it."""
    pod: str
    """Empty while the claim is reserved for none."""


@dataclass
class ClaimWatch:
    """Follows the claims of a namespace in the order of their changes while the context is open.

    Attributes:
        cards: MiB of each card.
        wrong: One line for each change after which a card was held over its memory, or a claim held another
            amount than it asks of a card of that size.
        most: Most MiB that were held of each card at once.
        granted: Claims that held a part of a card, ever.
    """

    cluster: Cluster
    namespace: str
    cards: Mapping[Card, int]
    wrong: list[str] = field(default_factory=list)
    most: Counter[Card] = field(default_factory=Counter)
    granted: set[str] = field(default_factory=set)
    held: dict[str, list[Part]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Start to follow."""
        self._path = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims"
        self._version = self.cluster.api.call("GET", self._path)["metadata"]["resourceVersion"]
        self._client = httpx.Client(
            base_url=self.cluster.url,
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
            verify=ssl.create_default_context(cafile=self.cluster.home.ca_file),
            timeout=None,  # noqa: S113 - a stream, which ends with the test
            trust_env=False,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to follow."""
        self._stop.set()
        # A change of the namespace's claims wakes the thread, which reads until the next line.
        self.cluster.api.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "the-last"},
                "spec": {},
            },
            self.namespace,
        )
        self._thread.join()
        self._client.close()

    def until_released(self) -> None:
        """Wait until no claim holds anything, by this watch."""
        eventually(lambda: not self.held, "all cards are free")

    def held_by_pods(self) -> Counter[tuple[str, str, str]]:
        """MiB by node, device and pod."""
        return Counter(
            {(*part.card, part.pod): part.floor_mib for each in self.held.values() for part in each}
        )

    def _follow(self) -> None:
        for event in self._events():
            if self._stop.is_set():
                return
            self._take(event["type"], event["object"])
        self.wrong.append("the watch ended before the test")

    def _events(self) -> Iterator[Object]:
        query = {"watch": "1", "resourceVersion": self._version, "timeoutSeconds": "3600"}
        with self._client.stream("GET", self._path, params=query) as answer:
            for line in answer.iter_lines():
                yield json.loads(line)

    def _take(self, kind: str, claim: Object) -> None:
        if kind == "ERROR":
            self.wrong.append(str(claim))
            return
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        parts = [] if kind == "DELETED" else list(self._parts(name, claim))
        changed = {part.card for part in parts}
        self.held.pop(uid, None)
        if parts:
            self.held[uid] = parts
            self.granted.add(uid)
        for card in changed:
            used = sum(part.mib for each in self.held.values() for part in each if part.card == card)
            self.most[card] = max(self.most[card], used)
            if used > self.cards[card]:
                self.wrong.append(f"{used} of {self.cards[card]} MiB of {card} are held after {name}")

    def _parts(self, name: str, claim: Object) -> Iterator[Part]:
        allocation = claim.get("status", {}).get("allocation", {})
        pod = next((each["name"] for each in claim.get("status", {}).get("reservedFor", [])), "")
        for result in allocation.get("devices", {}).get("results", []):
            card = result["pool"], result["device"]
            asked = asked_of(claim, result["request"])
            share = int(parse_quantity(result["consumedCapacity"]["share"]))
            if share != (SHARES_OF_CARD if asked is None else int(parse_quantity(asked))):
                self.wrong.append(f"{name} asks for {asked} and holds {share} of {card}")
            mib = self.cards[card]
            yield Part(card, -(-share * mib // SHARES_OF_CARD), share * mib // SHARES_OF_CARD, pod)


def asked_of(claim: Object, request: str) -> str | None:
    """The share that a request of a claim, or its alternative, asks for; None for all of a card."""
    [asked] = claim["spec"]["devices"]["requests"]
    alternative = request.partition("/")[2]
    of_sizes: list[dict[str, Any]] = asked.get("firstAvailable", [])
    exact = next((each for each in of_sizes if each["name"] == alternative), asked.get("exactly", {}))
    asked_for: str | None = exact.get("capacity", {}).get("requests", {}).get("share")
    return asked_for
