"""The patch cache: a decider in front of the rules that uses a template for pods with a known key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from kube.resource_requests import EffectiveRequest
from ledger.placement_request import Accounting, Placement, PlacementRequest, RequestedShare
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial
from webhook.admission.mutate import Injection, mutate
from webhook.admission.placement_request import placement_request
from webhook.admission.sizes import (
    MAX_BYTES_UNCOUNTED,
    MAX_CONTAINERS,
    MAX_MOUNTS,
    MAX_PATH_CHARACTERS,
    MAX_VARIABLES,
    MAX_VOLUMES,
)
from webhook.admission.validate import Validated, validate
from webhook.admission_request import PodObject, Request
from webhook.decision import Decider, Pending
from webhook.patch_cache.amounts import Requests, marks_of, without_amounts
from webhook.patch_cache.key import Key, KeyReader, PlainKey, SizedKey
from webhook.patch_cache.partial_pod import POD_TYPE, PartialPod, PartialSpec
from webhook.patch_cache.representative_pod import representative_body, representative_pod
from webhook.patch_cache.template import MEMORY, MODEL, NODE, RESERVATION, Template
from webhook.policy_resolver import ResolvedPolicy
from webhook.rules import accounting_of

MAX_POLICIES = 64
MAX_BYTES = 2**24
"""Approximate size of all entries; beyond it the cache is flushed, and new pods fill it again."""
MAX_KEY = 2**15
"""Maximum characters of a cached key."""
MAX_SIZED = 16
"""Keys with amounts that are kept, so that the amounts of pods with one of them are not read again.
Few: pods that all differ in their amounts replace them all the time, and what is kept takes cold memory."""
_BYTES_OF_AN_ENTRY, _BYTES_OF_A_TEMPLATE_KEY = 2**13, 2**8
"""Of an entry without its key and templates, and of the key of a template."""
NO_AMOUNTS = EffectiveRequest(0, 0, {})
MAX_SEEN_ONCE = 4096
"""Keys seen once; only their hashes are kept."""


class SizedEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry for pods with certain amounts of CPU and memory."""

    entry: Entry
    share: RequestedShare
    amounts: Sequence[bytes]
    """JSON texts without quotes."""


class Entry:
    """What the rules decided for a key, and the templates of its patches by placement."""

    def __init__(
        self,
        validated: Validated,
        request: PlacementRequest,
        marks: Sequence[str],
        reserve: Callable[[int], None],
    ) -> None:
        """Store what the rules decided for the representative pod.

        Args:
            validated: what the rules found in the representative pod.
            request: its placement request without amounts, and without what is specific to one pod.
            marks: stand for the amounts in it.
            reserve: counts bytes of templates.
        """
        self._plan = validated
        self._reserve = reserve
        self._share, self.demands = request.share, request.demands
        self._marks = marks
        self._requests = Requests(validated.spec, marks)
        regular = [ref for ref in validated.every if not ref.is_init]
        self._chosen = regular.index(validated.containers.chosen)
        self._templates: dict[tuple[object, ...], Template | None] = {}

    def sized(self, amounts: Sequence[bytes]) -> SizedEntry | None:
        """Return the entry for pods with these amounts; None if one of them is no quantity."""
        try:
            cpu_milli, memory_bytes = self._requests.of(amounts)
        except ValueError:
            return None
        share = msgspec.structs.replace(self._share, cpu_milli=cpu_milli, memory_bytes=memory_bytes)
        return SizedEntry(self, share, amounts)

    def render(self, pod: PartialPod, placement: Placement, amounts: Sequence[bytes]) -> Injection | None:
        """Return the patch of a pod with this key; None if a rule denies the placement."""
        key = (
            placement.indices,
            placement.gpu_mib,
            not placement.memory_values,
            placement.node is None,
            placement.reservation is None,
            placement.model is None,
            placement.other_memory_values,
            placement.hosts,
            placement.other_hosts,
            placement.instance,
            placement.waits_for_quota,
        )
        try:
            template = self._templates[key]
        except KeyError:
            template = self._add_template(key, placement)
        if template is None or pod.spec is None or pod.spec.containers is None:
            return None
        name = pod.spec.containers[self._chosen].name
        patch = template.render(name, placement, amounts)
        return Injection(patch, name, template.slices, placement, template.memory_mib, template.index)

    def _add_template(self, key: tuple[object, ...], placement: Placement) -> Template | None:
        template = self._template(placement)
        self._reserve(_BYTES_OF_A_TEMPLATE_KEY + (template.size if template is not None else 0))
        self._templates[key] = template
        return template

    def _template(self, placement: Placement) -> Template | None:
        marked = Placement(
            placement.indices,
            placement.gpu_mib,
            (MEMORY,) if placement.memory_values else (),
            None if placement.node is None else NODE,
            None if placement.reservation is None else RESERVATION,
            None if placement.model is None else MODEL,
            placement.slices,
            other_memory_values=placement.other_memory_values,
            hosts=placement.hosts,
            other_hosts=placement.other_hosts,
            instance=placement.instance,
            waits_for_quota=placement.waits_for_quota,
        )
        injection = mutate(self._plan, marked)
        return None if isinstance(injection, Denial) else Template.of(injection, self._marks)


class PatchCache:
    """Decides like the rules, but faster for known keys. Bounded, because authors of pods choose the keys."""

    pod_type: type[PodObject] = POD_TYPE

    def __init__(self, rules: Decider) -> None:
        self._rules = rules
        self._last: tuple[EffectivePolicy, KeyReader] | None = None
        self._readers: dict[tuple[str, str | None], KeyReader] = {}
        self._sized: dict[SizedKey, SizedEntry] = {}
        self._entries: dict[PlainKey, Entry | None] = {}
        self._bytes = 0
        self._seen_once: set[int] = set()

    def begin(self, request: Request, resolved: ResolvedPolicy) -> Pending | Injection | Denial:
        """Return the decision, or the placement request on which it depends."""
        pod, policy = request.object, resolved.policy
        if isinstance(pod, PartialPod) and (len(request.body) <= MAX_BYTES_UNCOUNTED or _is_small(pod.spec)):
            sized = self.find(pod, request.namespace, policy)
            if sized is not None:
                accounting = accounting_of(request, resolved)
                asked = PlacementRequest(sized.share, sized.entry.demands, accounting)
                return Pending(asked, partial(self._finish, sized, pod, request, resolved), policy)
        return self._rules.begin(request, resolved)

    def begin_alias(self, request: Request, resolved: ResolvedPolicy) -> Pending | Injection | Denial | None:
        """Return what the rules decide: a pod in another system's syntax has no key."""
        return self._rules.begin_alias(request, resolved)

    def find(self, pod: PartialPod, namespace: str, policy: EffectivePolicy) -> SizedEntry | None:
        """Return the entry of the pod's key; None if the rules must decide the pod itself."""
        last = self._last
        reader = last[1] if last is not None and last[0] is policy else self._reader_of(policy)
        key = reader.read(pod, namespace)
        if key is None:
            return None
        return self._sized.get(key) or self._miss(key, policy)

    def _finish(
        self,
        sized: SizedEntry,
        pod: PartialPod,
        request: Request,
        resolved: ResolvedPolicy,
        placement: Placement,
    ) -> Injection | Denial:
        """Render the template; if a rule denies the placement, let the rules decide the pod itself."""
        injection = sized.entry.render(pod, placement, sized.amounts)
        if injection is not None:
            return injection
        begun = self._rules.begin(request, resolved)
        return begun.finish(placement) if isinstance(begun, Pending) else begun

    def _reader_of(self, policy: EffectivePolicy) -> KeyReader:
        reader = self._readers.get((policy.marker, policy.queue)) or self._new_reader(policy)
        self._last = policy, reader
        return reader

    def _new_reader(self, policy: EffectivePolicy) -> KeyReader:
        if len(self._readers) >= MAX_POLICIES:
            self._readers.clear()
        reader = self._readers[policy.marker, policy.queue] = KeyReader(policy)
        return reader

    def _miss(self, sized_key: SizedKey, policy: EffectivePolicy) -> SizedEntry | None:
        """Find the entry by the key without amounts."""
        split = without_amounts(sized_key)
        if split is None:
            return None
        key, amounts = split
        try:
            entry = self._entries[key]
        except KeyError:
            entry = self._new_entry(Key._make(key), policy)
        sized = entry.sized(amounts) if entry is not None else None
        if sized is not None:
            if len(self._sized) >= MAX_SIZED:
                self._sized.clear()
            self._sized[sized_key] = sized
        return sized

    def _new_entry(self, key: Key, policy: EffectivePolicy) -> Entry | None:
        """Add an entry when a key is seen for the second time: rules are cheaper for a key seen only once."""
        if hash(key) in self._seen_once:
            return self._add(key, policy)
        if len(self._seen_once) >= MAX_SEEN_ONCE:
            self._seen_once.clear()
        self._seen_once.add(hash(key))
        return None

    def _add(self, key: Key, policy: EffectivePolicy) -> Entry | None:
        # Ignore line ends: they cannot hide a mark. A backslash before an n is written as two backslashes.
        text = repr(key).replace("\\n", "").replace("\\x00", "")
        # A text that needs escaping could contain a mark.
        if len(text) > MAX_KEY or "\\" in text or not text.isascii():
            return None
        self._reserve(_BYTES_OF_AN_ENTRY + 8 * len(text))
        entry = self._entries[key] = _decide(key, policy, self._reserve)
        return entry

    def _reserve(self, size: int) -> None:
        if self._bytes + size > MAX_BYTES:
            self._sized.clear()
            self._entries.clear()
            self._bytes = 0
        self._bytes += size


def _is_small(spec: PartialSpec | None) -> bool:
    """Whether all counts of webhook/admission/sizes.py that are not part of the key are within limits."""
    if spec is None:
        return True
    every = (*(spec.init_containers or ()), *(spec.containers or ()))
    if len(every) > MAX_CONTAINERS or len(spec.volumes or ()) > MAX_VOLUMES:
        return False
    mounts = [mount for each in every for mount in each.volume_mounts or ()]
    variables = sum([len(each.env) for each in every if each.env])
    if len(mounts) > MAX_MOUNTS or variables > MAX_VARIABLES:
        return False
    paths = sum([len(mount.mount_path) for mount in mounts])
    return paths + sum([len(each.termination_message_path or "") for each in every]) <= MAX_PATH_CHARACTERS


def _decide(key: Key, policy: EffectivePolicy, reserve: Callable[[int], None]) -> Entry | None:
    """Decide a representative pod by the rules; None if they deny it, or if names matter to them."""
    try:
        pod = representative_pod(representative_body(key))
    except (msgspec.ValidationError, RecursionError):
        return None
    validated = validate(pod, key.namespace, policy, dict)
    if (
        isinstance(validated, Denial)
        or len(validated.containers.gpu) > 1
        or not _chosen_by_amounts(validated)
    ):
        return None
    request = placement_request(validated, Accounting(namespace=validated.namespace), NO_AMOUNTS)
    if isinstance(request, Denial):
        return None
    return Entry(validated, request, marks_of(key.resources), reserve)


def _chosen_by_amounts(validated: Validated) -> bool:
    """Whether only one container can be the GPU container, whatever its name, image or annotations."""
    if validated.containers.chosen.is_init:
        return False
    regular = [ref for ref in validated.every if not ref.is_init]
    return len(regular) == 1 or sum(ref.asks_for_gpu for ref in regular) == 1
