"""Authorizes users of the exposed page: those that the API server allows to list GpuLedgers.

A token can be made for only the page, so that an attacker who takes over this process cannot use it at the
API server. A token for the API server itself is accepted too, one for any other service is not.

Answers of the API server are kept for half a minute, for a bounded number of tokens, and the number of
questions at a time is bounded. Both bounds are separate by what a token was good for before: a flood of
invented tokens excludes no viewer, and tokens of one namespace exclude no viewer of all namespaces. Tokens
are kept as digests.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from kube.names import GROUP, PAGE_AUDIENCE
from web.source import PageRefusedError, Viewer

KEPT_SECONDS = 30.0
MAX_KEPT = 256
MAX_ASKED_AT_ONCE = 8
ASK_SECONDS = 5.0
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_HOW = f"kubectl create token SERVICEACCOUNT --audience={PAGE_AUDIENCE}"
_NO_TOKEN = f"send a bearer token: {_HOW}"
_BAD_TOKEN = f"the API server does not know this token: make another, {_HOW}"
_NO_RIGHT = f"this token may not list gpuledgers.{GROUP}"
_AWAY = "the API server cannot check the token now: try again in a minute"

Answer = Viewer | PageRefusedError
_Key = tuple[bytes, str]
"""Digest of a token, and the requested namespace."""
_Kept = tuple[float, Answer]
"""An answer, and its expiry."""


class Sees(Enum):
    """Which namespaces a token allows to see."""

    ALL = auto()
    ONE_NAMESPACE = auto()
    NOTHING = auto()


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] = []
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class TokenAuthorizer:
    """Asks the API server for a token's user (TokenReview) and rights (SubjectAccessReview)."""

    asks = True

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._kept: dict[Sees, OrderedDict[_Key, _Kept]] = {kind: OrderedDict() for kind in Sees}
        """Kept beyond expiry, until others of the kind need the place: they show what a token was good
        for."""
        self._asking = Counter[Sees]()
        """Number of current questions, by what the token was good for before."""

    async def authorize(self, token: str, namespace: str) -> Viewer:
        """Return what a token may see: all namespaces, or only the requested one.

        Raises:
            PageRefusedError: it may see nothing, or the API server cannot tell now.
        """
        if not token:
            raise PageRefusedError(HTTPStatus.UNAUTHORIZED, _NO_TOKEN)
        key = hashlib.sha256(token.encode()).digest(), namespace
        before = next((kind for kind, those in self._kept.items() if key in those), Sees.NOTHING)
        kept = self._kept[before].get(key)
        if kept is None or kept[0] <= self._clock():
            until = self._clock() + KEPT_SECONDS
            kept = until, await self._answer(token, namespace, before)
            self._keep(key, kept)
        if isinstance(kept[1], PageRefusedError):
            raise PageRefusedError(kept[1].status, str(kept[1]))
        return kept[1]

    def _keep(self, key: _Key, kept: _Kept) -> None:
        for those in self._kept.values():
            those.pop(key, None)
        those = self._kept[_seen_by(kept[1])]
        those[key] = kept
        if len(those) > MAX_KEPT:
            those.popitem(last=False)

    async def _answer(self, token: str, namespace: str, before: Sees) -> Answer:
        """Ask the API server; raise PageRefusedError, which is not kept, if it cannot tell."""
        if self._asking[before] >= MAX_ASKED_AT_ONCE:
            raise PageRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests: try again in a second")
        self._asking[before] += 1
        try:
            return await self._review(token, namespace)
        except (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS) as error:
            raise PageRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, _AWAY) from error
        finally:
            self._asking[before] -= 1

    async def _review(self, token: str, namespace: str) -> Answer:
        user = await self._user(token)
        if user is None:
            return PageRefusedError(HTTPStatus.UNAUTHORIZED, _BAD_TOKEN)
        if await self._may_list(user, ""):
            return Viewer()
        if namespace and await self._may_list(user, namespace):
            return Viewer(namespace)
        where = (
            f'in namespace "{namespace}": ask the admin for the right to'
            if namespace
            else ("in all namespaces: filter by a namespace in which it may, or ask the admin")
        )
        return PageRefusedError(HTTPStatus.FORBIDDEN, f"{_NO_RIGHT} {where}")

    async def _user(self, token: str) -> _User | None:
        """Return the token's user; None if it is for neither the page nor the API server."""
        found = await self._token_status({"token": token, "audiences": [PAGE_AUDIENCE]})
        # An API server without support for audiences checked only its own, and returns none of ours.
        if not (found.authenticated and PAGE_AUDIENCE in found.audiences):
            found = await self._token_status({"token": token})
        return found.user if found.authenticated else None

    async def _token_status(self, spec: dict[str, Any]) -> _TokenStatus:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        data = await self._api.request("POST", TOKEN_REVIEWS, body=body, seconds=ASK_SECONDS)
        return msgspec.json.decode(data, type=_TokenReview).status

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


def _seen_by(answer: Answer) -> Sees:
    if isinstance(answer, PageRefusedError):
        return Sees.NOTHING
    return Sees.ALL if answer.namespace is None else Sees.ONE_NAMESPACE
