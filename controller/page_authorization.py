"""Who may see the page where it is exposed: whoever the API server lets list GpuLedgers.

The answers of the API server are kept for half a minute, of so many tokens that nobody can fill the memory;
only so many are asked for at a time. Both are counted apart for tokens that were good before, so that a flood
of made-up ones shuts no viewer out. Tokens are kept as digests.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec

from controller.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from kube.names import GROUP
from web.source import PageRefusedError, Viewer

KEPT_SECONDS = 30.0
MAX_KEPT = 256
MAX_ASKED_AT_ONCE = 8
ASK_SECONDS = 5.0
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_NO_TOKEN = "send a bearer token: kubectl create token SERVICEACCOUNT"  # noqa: S105 - says how to get one
_BAD_TOKEN = "the API server does not know this token: make another, kubectl create token SERVICEACCOUNT"  # noqa: S105
_NO_RIGHT = f"this token may not list gpuledgers.{GROUP}"
_AWAY = "the API server does not say who you are: try again in a minute"

Answer = Viewer | PageRefusedError
_Key = tuple[bytes, str]
"""Digest of a token, and the namespace that was asked for."""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class TokenAuthorizer:
    """Asks the API server who a token is (TokenReview) and what it may (SubjectAccessReview)."""

    asks = True

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._good: OrderedDict[_Key, tuple[float, Answer]] = OrderedDict()
        """Also past their time, until others need the room: tokens that were good once."""
        self._bad: OrderedDict[_Key, tuple[float, Answer]] = OrderedDict()
        self._asking = Counter[bool]()
        """Questions under way, by whether the token was good before."""

    async def authorize(self, token: str, namespace: str) -> Viewer:
        """Return what a token may see: all namespaces, or only the one that is asked for.

        Raises:
            PageRefusedError: it may see nothing, or nobody can say now.
        """
        if not token:
            raise PageRefusedError(HTTPStatus.UNAUTHORIZED, _NO_TOKEN)
        key = hashlib.sha256(token.encode()).digest(), namespace
        was_good = key in self._good
        kept = self._good.get(key) or self._bad.get(key)
        if kept is None or kept[0] <= self._clock():
            until = self._clock() + KEPT_SECONDS
            kept = until, await self._answer(token, namespace, was_good=was_good)
            self._keep(key, kept)
        if isinstance(kept[1], PageRefusedError):
            raise PageRefusedError(kept[1].status, str(kept[1]))
        return kept[1]

    def _keep(self, key: _Key, kept: tuple[float, Answer]) -> None:
        self._good.pop(key, None)
        self._bad.pop(key, None)
        those = self._good if isinstance(kept[1], Viewer) else self._bad
        those[key] = kept
        if len(those) > MAX_KEPT:
            those.popitem(last=False)

    async def _answer(self, token: str, namespace: str, *, was_good: bool) -> Answer:
        """Ask the API server; raises PageRefusedError, which is not kept, where it does not say."""
        if self._asking[was_good] >= MAX_ASKED_AT_ONCE:
            raise PageRefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many ask at once: try again in a second"
            )
        self._asking[was_good] += 1
        try:
            return await self._review(token, namespace)
        except (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS) as error:
            raise PageRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, _AWAY) from error
        finally:
            self._asking[was_good] -= 1

    async def _review(self, token: str, namespace: str) -> Answer:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        data = await self._api.request("POST", TOKEN_REVIEWS, body=body, seconds=ASK_SECONDS)
        found = msgspec.json.decode(data, type=_TokenReview).status
        if not found.authenticated:
            return PageRefusedError(HTTPStatus.UNAUTHORIZED, _BAD_TOKEN)
        if await self._may_list(found.user, ""):
            return Viewer()
        if namespace and await self._may_list(found.user, namespace):
            return Viewer(namespace)
        where = (
            f'in namespace "{namespace}": ask the admin for the right to'
            if namespace
            else ("in all namespaces: filter by the namespace in which it may, or ask the admin")
        )
        return PageRefusedError(HTTPStatus.FORBIDDEN, f"{_NO_RIGHT} {where}")

    async def _may_list(self, user: _User, namespace: str) -> bool:
        attributes = {"verb": "list", "group": GROUP, "resource": "gpuledgers"}
        if namespace:
            attributes["namespace"] = namespace
        spec: dict[str, Any] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        data = await self._api.request("POST", ACCESS_REVIEWS, body=body, seconds=ASK_SECONDS)
        return msgspec.json.decode(data, type=_AccessReview).status.allowed
