"""AdmissionReview in and out: what was asked, about which object, and the reply as bytes."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
from pybase64 import b64encode

from kube.names import is_namespace, is_uid
from kube.objects import OwnerReference
from ledger.owners import owner_key
from webhook.admission.denial import Denial, Reason
from webhook.admission.nesting import head_of, is_surely_unlabelled
from webhook.admission.pod import LABEL, Job, Pod, label_of
from webhook.admission.remembered import Remembered
from webhook.patch_cache.outline import PodOutline


class UnreadableReviewError(ValueError):
    """The body is no AdmissionReview that could be answered; says why in one line."""


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    resource: str = ""


_NO_RESOURCE = _Resource()


class _Header(msgspec.Struct, rename="camel", gc=False):
    """Everything of a request but its object."""

    uid: str
    resource: _Resource = _NO_RESOURCE
    operation: str = ""
    sub_resource: str | None = None
    namespace: str | None = None
    dry_run: bool | None = None


class _OutlinedRequest(_Header):
    object: PodOutline | None = None


class _OutlinedReview(msgspec.Struct, rename="camel", gc=False):
    request: _OutlinedRequest
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


class _PodRequest(msgspec.Struct, gc=False):
    object: Pod | None


class _PodReview(msgspec.Struct, gc=False):
    request: _PodRequest


class _JobRequest(_Header):
    object: Job | None = None


class _JobReview(msgspec.Struct, gc=False):
    request: _JobRequest


class _RawRequest(_Header):
    object: msgspec.Raw = msgspec.Raw()


class _RawReview(msgspec.Struct, rename="camel", gc=False):
    request: _RawRequest
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


class _LabelledMetadata(msgspec.Struct, gc=False):
    labels: dict[str, msgspec.Raw] | None = None


class _Labelled(msgspec.Struct, gc=False):
    """An object that tells whether it carries the label, whatever else is wrong with it."""

    metadata: _LabelledMetadata | None = None


class _User(msgspec.Struct, gc=False):
    username: str
    groups: list[str]


class _Annotated(msgspec.Struct, gc=False):
    annotations: dict[str, msgspec.Raw]


class _AnnotatedObject(msgspec.Struct, gc=False):
    metadata: _Annotated


class _Creation(msgspec.Struct, rename="camel", gc=False):
    user_info: _User
    object: _AnnotatedObject


class _CreationReview(msgspec.Struct, gc=False):
    """Who creates an object with which annotations."""

    request: _Creation


class _ReplicaMetadata(msgspec.Struct, rename="camel", gc=False):
    generate_name: str | None = None
    owner_references: list[OwnerReference] | None = None


class _ReplicaObject(msgspec.Struct, gc=False):
    metadata: _ReplicaMetadata


class _ReplicaRequest(msgspec.Struct, gc=False):
    object: _ReplicaObject


class _ReplicaReview(msgspec.Struct, gc=False):
    """What an object is a replica of."""

    request: _ReplicaRequest


class _NamedMetadata(msgspec.Struct, rename="camel", gc=False):
    name: msgspec.Raw = msgspec.Raw()
    generate_name: msgspec.Raw = msgspec.Raw()
    owner_references: msgspec.Raw = msgspec.Raw()


class _NamedObject(msgspec.Struct, gc=False):
    metadata: _NamedMetadata


class _NamedRequest(msgspec.Struct, rename="camel", gc=False):
    object: _NamedObject
    user_info: msgspec.Raw = msgspec.Raw()


class _NamedReview(msgspec.Struct, gc=False):
    """Who creates an object of which name."""

    request: _NamedRequest


_outlined_review = msgspec.json.Decoder(_OutlinedReview)
_pod_review = msgspec.json.Decoder(_PodReview)
_job_review = msgspec.json.Decoder(_JobReview)
_raw_review = msgspec.json.Decoder(_RawReview)
_creation_review = msgspec.json.Decoder(_CreationReview)
_replica_review = msgspec.json.Decoder(_ReplicaReview)
_named_review = msgspec.json.Decoder(_NamedReview)
_labels_only = msgspec.json.Decoder(_Labelled)
_anything = msgspec.json.Decoder()
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NODE_USER_PREFIX, NODE_GROUP = "system:node:", "system:nodes"
_encode = msgspec.json.Encoder().encode
MAX_API_VERSION = 63
"""Characters; the reply repeats it."""
UNREADABLE_NAMESPACE = "unreadable"
"""Stands for a namespace that cannot be one, wherever a namespace is kept or logged."""
_IS_NAMESPACE = Remembered(is_namespace)
"""Asked of every review, and namespaces come again."""
_REPLY = b'{"kind":"AdmissionReview","apiVersion":'


class Request(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One question of the API server."""

    uid: str
    api_version: str
    operation: str
    resource: str
    """Group and plural name, as "pods" or "batch/jobs"."""
    sub_resource: str
    namespace: str
    dry_run: bool
    object: PodOutline | Job | Denial | None
    """The object; a Denial where it carries the label but cannot be read; None where it does neither."""
    body: bytes

    def pod(self) -> Pod | Denial:
        """Decode the pod with all the fields that rules read; a Denial where it cannot be read."""
        try:
            return _pod_review.decode(self.body).request.object or Pod()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _unreadable(error)

    def pod_identity(self) -> str:
        """Digest of what names a labelled pod before it has a uid: its name, its owners and its creator.

        The API server sends these as they were when it asks about the same pod again.
        """
        named = _named_review.decode(self.body).request
        metadata, digest = named.object.metadata, blake2b(digest_size=16)
        for part in (metadata.name, metadata.generate_name, metadata.owner_references, named.user_info):
            # With its length, so that no other parts join to the same bytes.
            digest.update(b"%d:" % len(bytes(part)) + bytes(part))
        return digest.hexdigest()

    def owner(self, queues: tuple[str, ...]) -> str:
        """Return the key of what a labelled pod is a replica of; empty where it stands alone.

        `queues` are the keys of its ClearML queue. What is not of its type, and so never comes from an API
        server, makes no replica.
        """
        try:
            metadata = _replica_review.decode(self.body).request.object.metadata
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return owner_key(self.namespace, metadata.owner_references, metadata.generate_name, queues)

    def is_mirror_pod(self) -> bool:
        """Whether a node shows a static pod of its own, which it runs whatever is decided here.

        Anybody may write the annotation, so the creator must be a node, by name and by group.
        """
        if self.resource != "pods":
            return False
        try:
            creation = _creation_review.decode(self.body).request
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        user = creation.user_info
        return (
            MIRROR_ANNOTATION in creation.object.metadata.annotations
            and NODE_GROUP in user.groups
            and user.username.startswith(NODE_USER_PREFIX)
            and user.username != NODE_USER_PREFIX
        )

    def whole_object(self) -> dict[str, Any] | Denial:
        """Decode the object with all its fields; a Denial where some field cannot be read."""
        try:
            return dict(_anything.decode(self.body)["request"]["object"])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _unreadable(error)


def decode(body: bytes) -> Request:
    """Read a review in two stages: all typed at once, else the envelope first and the object as it can be.

    Raises:
        UnreadableReviewError: the body is not JSON, or has no object `request` with a uid that can be one.
    """
    try:
        review = _outlined_review.decode(body)
        found: PodOutline | Job | Denial | None = review.request.object
        if review.request.resource.resource == "jobs":
            found = _job_review.decode(body).request.object
        return _request(review.request, review.api_version, found, body)
    except (msgspec.ValidationError, RecursionError):
        return _decode_in_parts(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableReviewError(f"the body is not JSON: {error}") from error


def allow(request: Request, reason: Reason, patch: bytes = b"", note: str | None = None) -> bytes:
    """Answer yes, with a JSON Patch, as its text, if there is something to change."""
    verdict = _verdict("allowed", reason, note)
    if not patch:
        return _reply(request, verdict)
    # base64 needs no escaping.
    return _reply(request, verdict, b',"patchType":"JSONPatch","patch":"', b64encode(patch), b'"')


def deny(request: Request, denial: Denial) -> bytes:
    """Answer no, in one line; the API server shows it to whoever made the object."""
    status = {"code": 403, "reason": "Forbidden", "status": "Failure", "message": denial.message}
    return _reply(request, _verdict("denied", denial.reason, None), b',"status":', _encode(status))


def _reply(request: Request, *members: bytes) -> bytes:
    """Join the reply of the texts that follow the uid."""
    version, uid = _encode(request.api_version), _encode(request.uid)
    return b"".join((_REPLY, version, b',"response":{"uid":', uid, *members, b"}}"))


@cache
def _verdict(decision: str, reason: Reason, note: str | None) -> bytes:
    """The same for all reviews that end so."""
    annotations = {"decision": decision, "reason": reason.value}
    audit = _encode(annotations if note is None else {**annotations, "note": note})
    allowed = _encode(decision == "allowed")
    return b',"allowed":%b,"auditAnnotations":%b' % (allowed, audit)


def _request(
    header: _Header, api_version: str, found: PodOutline | Job | Denial | None, body: bytes
) -> Request:
    """Check what is kept, logged or repeated of a request: anybody may have written it, at any length."""
    resource, namespace = header.resource, header.namespace or "default"
    if not is_uid(header.uid) or len(api_version) > MAX_API_VERSION:
        raise UnreadableReviewError("request.uid or apiVersion is too long, or is none of Kubernetes'")
    if not _IS_NAMESPACE[namespace]:
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


def _in_no_namespace(found: PodOutline | Job | Denial | None) -> Denial | None:
    """Refuse a labelled object of a namespace that cannot be; others have nothing to do with us."""
    if isinstance(found, PodOutline):
        labels = found.metadata.labels if found.metadata is not None else None
        is_labelled = labels is not None and labels.fraction is not msgspec.UNSET
    elif isinstance(found, Job):
        is_labelled = label_of(found.metadata) is not None
    else:
        return found
    if not is_labelled:
        return None
    return Denial.of(
        Reason.UNREADABLE, "request.namespace is no name of a namespace: create the object in one that exists"
    )


def _decode_in_parts(body: bytes) -> Request:
    try:
        review = _raw_review.decode(body)
    except RecursionError as error:
        return _nested_too_deep(body, error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableReviewError(f"no readable AdmissionReview: {error}") from error
    return _request(review.request, review.api_version, _partly_read(review.request), body)


def _nested_too_deep(body: bytes, error: RecursionError) -> Request:
    """Deny what cannot be decoded and may be labelled, as if somebody created it: nothing else is sent."""
    head = head_of(body)
    if head is None:
        raise UnreadableReviewError(f"no readable AdmissionReview: {error}") from error
    version, uid = head
    denial = Denial.of(
        Reason.UNREADABLE, "the object is nested too deep to be read: leave out the field with so many levels"
    )
    header = _Header(uid, operation="CREATE")
    return _request(header, version, None if is_surely_unlabelled(body) else denial, body)


def _partly_read(request: _RawRequest) -> Denial | None:
    """Tell a labelled object that cannot be read from one that has nothing to do with us."""
    try:
        metadata = _labels_only.decode(request.object).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if metadata is None or LABEL not in (metadata.labels or ()):
        return None
    kind: type[Pod | Job] = Job if request.resource.resource == "jobs" else Pod
    try:
        msgspec.json.decode(request.object, type=kind)
    except msgspec.ValidationError as error:
        return _unreadable(error)
    return Denial.of(
        Reason.UNREADABLE, "the labelled object cannot be read: create it anew from its manifest"
    )


def _unreadable(error: Exception) -> Denial:
    where = str(error).replace("$.request.object.", "").replace("$.", "")
    return Denial.of(Reason.UNREADABLE, f"the labelled object cannot be read: {where}; mend that field")
