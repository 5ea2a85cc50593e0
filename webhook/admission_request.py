"""One request of the API server: its object as rules read it; all other fields are decoded only on demand."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from kube.objects import OwnerReference
from ledger.owners import owner_key
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import Job, Pod

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NODE_USER_PREFIX, NODE_GROUP = "system:node:", "system:nodes"


class _User(msgspec.Struct, gc=False):
    username: str
    groups: list[str]


_NULL = msgspec.Raw(b"null")


class _NamedMetadata(msgspec.Struct, rename="camel", gc=False):
    name: msgspec.Raw = _NULL
    generate_name: msgspec.Raw = _NULL
    annotations: msgspec.Raw = _NULL
    owner_references: msgspec.Raw = _NULL


class _NamedObject(msgspec.Struct, gc=False):
    metadata: _NamedMetadata


class _NamedRequest(msgspec.Struct, rename="camel", gc=False):
    object: _NamedObject
    user_info: msgspec.Raw = _NULL


class _NamedReview(msgspec.Struct, gc=False):
    """Who creates an object, its names, annotations and owners, of any type."""

    request: _NamedRequest


_named_review = msgspec.json.Decoder(_NamedReview)
_user = msgspec.json.Decoder(_User)
_annotations = msgspec.json.Decoder(dict[str, msgspec.Raw])
_owners = msgspec.json.Decoder(list[OwnerReference] | None)
_anything = msgspec.json.Decoder()


class Request(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One request of the API server."""

    uid: str
    api_version: str
    operation: str
    resource: str
    """Group and plural name, such as "pods" or "batch/jobs"."""
    sub_resource: str
    namespace: str
    dry_run: bool
    object: Pod | Job | Denial | None
    """The object; a Denial if it has the label but cannot be read; None if neither."""
    body: bytes

    def pod_identity(self) -> str:
        """Return a digest that identifies a labelled pod before it has a uid: its name, owners and creator.

        The API server sends the same values when it reviews the same pod again.
        """
        named = _named_review.decode(self.body).request
        metadata, digest = named.object.metadata, blake2b(digest_size=16)
        for part in (metadata.name, metadata.generate_name, metadata.owner_references, named.user_info):
            # With its length, so that different parts never join to the same bytes.
            digest.update(b"%d:" % len(bytes(part)) + bytes(part))
        return digest.hexdigest()

    def pod_name(self) -> str:
        """Return the name of a labelled pod; with generateName only its beginning, and "*".

        Fields of a wrong type, which an API server never sends, give an empty name.
        """
        metadata = _named_review.decode(self.body).request.object.metadata
        return _text(metadata.name) or (f"{start}*" if (start := _text(metadata.generate_name)) else "")

    def owner(self, queues: tuple[str, ...]) -> str:
        """Return the key of the owner whose replica a labelled pod is; empty without an owner.

        `queues` are the keys of its ClearML queue. Fields of a wrong type, which an API server never sends,
        name no owner.
        """
        try:
            metadata = _named_review.decode(self.body).request.object.metadata
            owners, start = _owners.decode(metadata.owner_references), _text(metadata.generate_name)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return owner_key(self.namespace, owners, start, queues)

    def is_mirror_pod(self) -> bool:
        """Whether this is a mirror pod of a static pod, which its node runs whatever is decided here.

        Anybody may set the annotation, so the creator must be a node, by name and by group.
        """
        if self.resource != "pods":
            return False
        try:
            named = _named_review.decode(self.body).request
            user = _user.decode(named.user_info)
            annotations = _annotations.decode(named.object.metadata.annotations)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return (
            MIRROR_ANNOTATION in annotations
            and NODE_GROUP in user.groups
            and user.username.startswith(NODE_USER_PREFIX)
            and user.username != NODE_USER_PREFIX
        )

    def whole_object(self) -> dict[str, Any] | Denial:
        """Decode the object with all its fields; return a Denial if a field cannot be read."""
        try:
            return dict(_anything.decode(self.body)["request"]["object"])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return unreadable(error)


def _text(raw: msgspec.Raw) -> str:
    found = msgspec.json.decode(raw)
    return found if isinstance(found, str) else ""


def unreadable(error: Exception) -> Denial:
    """Deny a labelled object, naming the field that the decoder rejected."""
    where = str(error).replace("$.request.object.", "").replace("$.", "")
    return Denial.of(Reason.UNREADABLE, f"the labelled object cannot be read: {where}; fix that field")
