"""AdmissionReview in and out: decodes the request and its object, and encodes the reply."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from kube.names import ASKING_LABELS, MAX_LABEL_VALUE, is_namespace, is_uid
from webhook.admission.denial import Denial, Reason
from webhook.admission.label import asked_of
from webhook.admission.pod import LABEL, MEMORY_LABEL, QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job, Pod
from webhook.admission_request import Request, unreadable

Kind = TypeVar("Kind")


class UnreadableReviewError(ValueError):
    """The body is not an AdmissionReview that can be answered; the text says why in one line."""


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    resource: str = ""


_NO_RESOURCE = _Resource()


class _Header(msgspec.Struct, rename="camel", gc=False):
    """All fields of a request except its object."""

    uid: str
    resource: _Resource = _NO_RESOURCE
    operation: str = ""
    sub_resource: str | None = None
    namespace: str | None = None
    dry_run: bool | None = None


class _RequestOf(_Header, Generic[Kind]):
    object: Kind | None = None


class _ReviewOf(msgspec.Struct, Generic[Kind], rename="camel", gc=False):
    request: _RequestOf[Kind]
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


class _RawRequest(_Header):
    object: msgspec.Raw = msgspec.Raw()


class _RawReview(msgspec.Struct, rename="camel", gc=False):
    request: _RawRequest
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


def _any(name: str) -> Any:
    return msgspec.field(default_factory=msgspec.Raw, name=name)


class _Labels(msgspec.Struct, gc=False):
    """The labels that decide how a review is handled, of any type; empty if they are missing."""

    fraction: msgspec.Raw = _any(LABEL)
    memory: msgspec.Raw = _any(MEMORY_LABEL)
    queue_name: msgspec.Raw = _any(QUEUE_NAME_LABEL)
    queue_id: msgspec.Raw = _any(QUEUE_ID_LABEL)

    @property
    def asks(self) -> bool:
        """Whether one of them requests a share."""
        return bool(bytes(self.fraction) or bytes(self.memory))


class _LabelledMetadata(msgspec.Struct, gc=False):
    labels: _Labels | None = None


class _Labelled(msgspec.Struct, gc=False):
    """Only the labels of an object, to tell whether it has ours even if the rest is invalid."""

    metadata: _LabelledMetadata | None = None


class Head(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What can be decoded quickly of a review of any size: of its object, only our labels."""

    request: Request
    """Without its object; with a Denial instead if that cannot be read and may be labelled."""
    is_labelled: bool
    queue: tuple[str | None, str | None] = (None, None)
    """Name and id of the ClearML queue, from the object's labels."""


_pod_review = msgspec.json.Decoder(_ReviewOf[Pod])
_job_review = msgspec.json.Decoder(_ReviewOf[Job])
_raw_review = msgspec.json.Decoder(_RawReview)
_labels_only = msgspec.json.Decoder(_Labelled)
_encode = msgspec.json.Encoder().encode
MAX_API_VERSION = 63
"""Maximum characters; the reply repeats it."""
UNREADABLE_NAMESPACE = "unreadable"
"""Replaces an invalid namespace wherever a namespace is stored or logged."""
_TEXT = rb'"[^"\\]{0,63}"'
_HEAD = re.compile(
    rb'\s*\{\s*(?:"(?:kind|apiVersion)"\s*:\s*%b\s*,\s*){0,2}"request"\s*:\s*\{\s*"uid"\s*:\s*"([^"\\]{1,63})"'
    % _TEXT
)
"""The beginning of a review from an API server."""
_VERSION = re.compile(rb'"apiVersion"\s*:\s*"([^"]*)"')


def decode(body: bytes) -> Request:
    """Decode a review and its pod in one pass; if that fails, as much as can be decoded.

    Raises:
        UnreadableReviewError: the body is not JSON, or has no object `request` with a valid uid.
    """
    try:
        review = _pod_review.decode(body)
        found: Pod | Job | None = review.request.object
        if review.request.resource.resource == "jobs":
            found = _job_review.decode(body).request.object
        return _request(review.request, review.api_version, found, body)
    except (msgspec.ValidationError, RecursionError):
        return _decode_in_parts(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableReviewError(f"the body is not JSON: {error}") from error


def decode_head(body: bytes) -> Head:
    """Decode a `Head`.

    Raises:
        UnreadableReviewError: as in `decode`.
    """
    review = _raw(body)
    if isinstance(review, Request):
        return Head(review, is_labelled=review.object is not None)
    labels = _labels_of(review.request.object)
    queue = _text(labels.queue_name), _text(labels.queue_id)
    return Head(_request(review.request, review.api_version, None, body), labels.asks, queue)


def allow(request: Request, reason: Reason, patch: bytes = b"", note: str | None = None) -> bytes:
    """Return an allowing reply; `patch` is the text of a JSON Patch, empty if nothing changes."""
    said = {"decision": "allowed", "reason": reason.value} | ({} if note is None else {"note": note})
    # msgspec writes bytes as base64, as Kubernetes does.
    return _reply(request, said, {"patchType": "JSONPatch", "patch": patch} if patch else {})


def deny(request: Request, denial: Denial) -> bytes:
    """Return a denying reply of one line, which the API server shows to the object's creator."""
    status = {"code": 403, "reason": "Forbidden", "status": "Failure", "message": denial.message}
    return _reply(request, {"decision": "denied", "reason": denial.reason.value}, {"status": status})


def _reply(request: Request, said: dict[str, str], members: dict[str, Any]) -> bytes:
    allowed = said["decision"] == "allowed"
    response = {"uid": request.uid, "allowed": allowed, "auditAnnotations": said, **members}
    return _encode({"apiVersion": request.api_version, "kind": "AdmissionReview", "response": response})


def _request(header: _Header, api_version: str, found: Pod | Job | Denial | None, body: bytes) -> Request:
    """Validate what is stored, logged or repeated of a request: a stranger may send it, at any length."""
    resource, namespace = header.resource, header.namespace or "default"
    if not is_uid(header.uid) or len(api_version) > MAX_API_VERSION:
        raise UnreadableReviewError("request.uid or apiVersion is empty, too long, or not a valid one")
    if len(namespace) > MAX_LABEL_VALUE or not _is_namespace(namespace):
        namespace, found = UNREADABLE_NAMESPACE, _in_no_namespace(found)
    return Request(
        header.uid,
        api_version,
        header.operation,
        f"{resource.group}/{resource.resource}" if resource.group else resource.resource,
        header.sub_resource or "",
        namespace,
        header.dry_run is True,
        found,
        body,
    )


_is_namespace = lru_cache(maxsize=1024)(is_namespace)
"""Called for every review, and a cluster has few namespaces."""


def _in_no_namespace(found: Pod | Job | Denial | None) -> Denial | None:
    """Deny a labelled object in an invalid namespace; other objects do not concern us."""
    if found is None or isinstance(found, Denial):
        return found
    if asked_of(found.metadata) is None:
        return None
    return Denial.of(
        Reason.UNREADABLE,
        "request.namespace is not a valid namespace name: create the object in an existing namespace",
    )


def _decode_in_parts(body: bytes) -> Request:
    review = _raw(body)
    if isinstance(review, Request):
        return review
    return _request(review.request, review.api_version, _partly_read(review.request), body)


def _raw(body: bytes) -> _RawReview | Request:
    """Decode all but the object; return the request to answer if even that is nested too deeply."""
    try:
        return _raw_review.decode(body)
    except RecursionError as error:
        return _nested_too_deep(body, error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableReviewError(f"not a readable AdmissionReview: {error}") from error


def _nested_too_deep(body: bytes, error: RecursionError) -> Request:
    """Deny an undecodable object that may be labelled, as if it were created: no other operation is sent."""
    head = _head_of(body)
    if head is None:
        raise UnreadableReviewError(f"not a readable AdmissionReview: {error}") from error
    version, uid = head
    denial = Denial.of(
        Reason.UNREADABLE, "the object is nested too deeply to be read: remove the field with so many levels"
    )
    header = _Header(uid, operation="CREATE")
    return _request(header, version, None if _is_surely_unlabelled(body) else denial, body)


def _head_of(body: bytes) -> tuple[str, str] | None:
    """Return API version and uid of a review; None if it does not begin and end like an API server's."""
    match = _HEAD.match(body)
    if match is None or not body.rstrip().endswith(b"}}"):
        return None
    version = _VERSION.search(match[0])
    named = version[1] if version is not None else b"admission.k8s.io/v1"
    return named.decode("utf-8", "replace"), match[1].decode("utf-8", "replace")


def _is_surely_unlabelled(body: bytes) -> bool:
    """Whether a review contains none of our labels, and no escape that could spell one."""
    return not any(label.encode() in body for label in ASKING_LABELS) and b"\\" not in body


def _partly_read(request: _RawRequest) -> Pod | Job | Denial | None:
    """Return a labelled object, or deny it if it cannot be read; None without a label."""
    if not _labels_of(request.object).asks:
        return None
    kind: type[Pod | Job] = Job if request.resource.resource == "jobs" else Pod
    try:
        return msgspec.json.decode(request.object, type=kind)
    except msgspec.ValidationError as error:
        return unreadable(error)


def _labels_of(found: msgspec.Raw) -> _Labels:
    """Return an object's labels, even if the rest is invalid."""
    try:
        metadata = _labels_only.decode(found).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        metadata = None
    return (metadata.labels if metadata is not None else None) or _Labels()


def _text(label: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(label, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
