"""One request of the API server: its object as rules read it; all other fields are decoded only on demand."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from ledger.owners import owner_key
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import Job, ObjectMeta, Pod

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NODE_USER_PREFIX, NODE_GROUP = "system:node:", "system:nodes"


class _User(msgspec.Struct, gc=False):
    username: str
    groups: list[str]


_user = msgspec.json.Decoder(_User)
_anything = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


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
    """The object; a Denial if it has the label but is too large or cannot be read; None if it has no label
    and cannot be read. Of an unlabelled object that is too large only the labels."""
    too_large: Denial | None
    user: bytes
    """JSON text of the user who creates the object."""
    body: bytes

    @property
    def _metadata(self) -> ObjectMeta:
        found = self.object
        metadata = None if found is None or isinstance(found, Denial) else found.metadata
        return metadata or ObjectMeta()

    def pod_identity(self) -> str:
        """Return a digest that identifies a labelled pod before it has a uid: its name, owners and creator.

        The API server sends the same values when it reviews the same pod again.
        """
        metadata = self._metadata
        named = metadata.name, metadata.generate_name, metadata.owner_references
        return blake2b(_encode(named) + self.user, digest_size=16).hexdigest()

    def pod_name(self) -> str:
        """Return the name of a labelled pod; with generateName only its beginning, and "*"."""
        name, start = self._metadata.name, self._metadata.generate_name
        return name or (f"{start}*" if start else "")

    def owner(self, queues: tuple[str, ...]) -> str:
        """Return the key of the owner whose replica a labelled pod is; empty without an owner.

        `queues` are the keys of its ClearML queue.
        """
        metadata = self._metadata
        return owner_key(self.namespace, metadata.owner_references, metadata.generate_name, queues)

    def object_key(self) -> str:
        """Return a digest of the object's owner, else of its name: the same for each try to create it."""
        metadata = self._metadata
        name = metadata.generate_name or metadata.name or ""
        return owner_key(self.namespace, metadata.owner_references, name, ())

    def is_mirror_pod(self) -> bool:
        """Whether this is a mirror pod of a static pod, which its node runs whatever is decided here.

        Anybody may set the annotation, so the creator must be a node, by name and by group.
        """
        if self.resource != "pods" or MIRROR_ANNOTATION not in (self._metadata.annotations or ()):
            return False
        try:
            user = _user.decode(self.user)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        is_node = user.username.startswith(NODE_USER_PREFIX) and user.username != NODE_USER_PREFIX
        return is_node and NODE_GROUP in user.groups

    def whole_object(self) -> dict[str, Any] | Denial:
        """Decode the object with all its fields; return a Denial if a field cannot be read."""
        try:
            return dict(_anything.decode(self.body)["request"]["object"])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return unreadable(error)


def unreadable(error: Exception) -> Denial:
    """Deny a labelled object, naming the field that the decoder rejected."""
    where = str(error).replace("$.", "")
    return Denial.of(Reason.UNREADABLE, f"the labelled object cannot be read: {where}; fix that field")
