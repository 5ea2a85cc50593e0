"""AdmissionReview in and out: decodes the request and its object, and encodes the reply."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from kube.names import ASKING_LABELS, MAX_LABEL_VALUE, is_namespace, is_uid
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job, ObjectMeta, Pod
from webhook.admission.sizes import refuse_too_large
from webhook.admission_request import Request, unreadable


class UnreadableReviewError(ValueError):
    """The body is not an AdmissionReview that can be answered; the text says why in one line."""


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    resource: str = ""


_NO_RESOURCE = _Resource()


class _Header(msgspec.Struct, rename="camel", gc=False):
    """A request whose object is still JSON text."""

    uid: str
    resource: _Resource = _NO_RESOURCE
    operation: str = ""
    sub_resource: str | None = None
    namespace: str | None = None
    dry_run: bool | None = None
    user_info: msgspec.Raw = msgspec.Raw()
    object: msgspec.Raw = msgspec.Raw()


class _Review(msgspec.Struct, rename="camel", gc=False):
    request: _Header
    api_version: str = "admission.k8s.io/v1"


class _LabelledMetadata(msgspec.Struct, gc=False):
    labels: dict[str, msgspec.Raw] | None = None


class _Labelled(msgspec.Struct, gc=False):
    """Only the labels of an object, of any type, to tell whether it has ours even if the rest is invalid."""

    metadata: _LabelledMetadata | None = None


_review = msgspec.json.Decoder(_Review)
_pod, _job = msgspec.json.Decoder(Pod), msgspec.json.Decoder(Job)
_labels_only = msgspec.json.Decoder(_Labelled)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode
MAX_API_VERSION = 63
"""Maximum characters; the reply repeats it."""


def decode(body: bytes) -> Request:
    """Decode a review and its object; of an object that is too large or invalid, only the labels.

    Raises:
        UnreadableReviewError: the body is not JSON, or has no object `request` with a valid uid and
            namespace: a stranger may send them, and they are stored, logged or repeated.
    """
    try:
        review = _review.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableReviewError(f"not a readable AdmissionReview: {error}") from error
    header, resource = review.request, review.request.resource
    namespace = header.namespace or "default"
    if not is_uid(header.uid) or len(review.api_version) > MAX_API_VERSION:
        raise UnreadableReviewError("request.uid or apiVersion is empty, too long, or not a valid one")
    if len(namespace) > MAX_LABEL_VALUE or not is_namespace(namespace):
        raise UnreadableReviewError("request.namespace is not a valid namespace name")
    too_large = refuse_too_large(body)
    return Request(
        header.uid,
        review.api_version,
        header.operation,
        f"{resource.group}/{resource.resource}" if resource.group else resource.resource,
        header.sub_resource or "",
        namespace,
        header.dry_run is True,
        _object(header, too_large),
        too_large,
        bytes(header.user_info),
        body,
    )


def _object(header: _Header, too_large: Denial | None) -> Pod | Job | Denial | None:
    if too_large is not None:
        labels = _labels_of(header.object)
        return _only_queue(labels) if labels.keys().isdisjoint(ASKING_LABELS) else too_large
    try:
        return (_job if header.resource.resource == "jobs" else _pod).decode(header.object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _labels_of(header.object).keys().isdisjoint(ASKING_LABELS):
            return None
        return _unquoted(header.object) or unreadable(error)


def _unquoted(found: msgspec.Raw) -> Denial | None:
    """Name the first label or annotation that is no text, as YAML reads 0.500 without quotes."""
    with contextlib.suppress(KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        metadata = _members.decode(_members.decode(found)["metadata"])
        for kind in ("label", "annotation"):
            for name, value in _members.decode(metadata.get(f"{kind}s", b"{}")).items():
                if not (text := bytes(value).decode()).startswith('"'):
                    rule = f"{kind} {name} is {text}, which is not text: write the value in quotes"
                    return Denial.of(Reason.UNREADABLE, rule)
    return None


def _only_queue(labels: dict[str, msgspec.Raw]) -> Pod:
    """Return an unlabelled object with only its queue's labels, which decide its policy."""
    found = {name: _text(labels[name]) for name in (QUEUE_NAME_LABEL, QUEUE_ID_LABEL) if name in labels}
    return Pod(ObjectMeta(labels=found))


def _labels_of(found: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return an object's labels, even if the rest is invalid."""
    try:
        metadata = _labels_only.decode(found).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        metadata = None
    return (metadata.labels if metadata is not None else None) or {}


def _text(label: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(label, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


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
