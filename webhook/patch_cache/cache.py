"""Forms of pods whose patch is known: a stand-in of the same form went through all the rules."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ledger.placement_request import Placement, PlacementRequest
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial
from webhook.admission.existing_injection import NOTHING_WRITTEN
from webhook.admission.mutate import Injection, inject
from webhook.admission.placement_request import AskingPod, ask_of
from webhook.admission.validate import Plan, make_plan
from webhook.patch_cache.key import Form, FormReader, ReadForm
from webhook.patch_cache.outline import LabelsOutline, PodOutline
from webhook.patch_cache.representative_pod import stand_in
from webhook.patch_cache.template import MEMORY, MODEL, NODE, RESERVATION, Stencil

MOST_POLICIES = 64
MOST_BYTES = 2**24
"""Of everything that is kept of forms, about; then all is forgotten, and learnt again from what comes."""
LONGEST_FORM = 2**15
"""Characters of a form that is worth keeping."""
_BYTES_OF_A_FORM, _BYTES_OF_A_KEY = 2**13, 2**8
"""Of what stands for a short form (its plan and its question to the ledger), and of a stencil's key."""
MOST_STRANGERS = 4096
"""Forms of which only that they were seen is kept."""


class KnownForm:
    """A form whose pods may have their share."""

    def __init__(self, plan: Plan, ask: PlacementRequest, take: Callable[[int], None]) -> None:
        """Keep what the rules said of a stand-in; `take` is told the bytes of what is kept later."""
        chosen = plan.containers.chosen
        self._plan = plan
        self._take = take
        self.ask = ask
        """The question to the ledger, but for namespace, queue, quotas and reservation."""
        self._chosen = [slot for slot in plan.every if not slot.is_init].index(chosen)
        self._stencils: dict[tuple[object, ...], Stencil | None] = {}

    def inject(self, pod: PodOutline, placement: Placement) -> Injection | None:
        """Give a pod of this form its share; None where a rule has something against it."""
        key = (
            placement.indices,
            placement.gpu_mib,
            not placement.memory_values,
            placement.node is None,
            placement.reservation is None,
            placement.model is None,
        )
        try:
            stencil = self._stencils[key]
        except KeyError:
            stencil = self._learn(key, placement)
        if stencil is None or pod.spec is None or pod.spec.containers is None:
            return None
        name = pod.spec.containers[self._chosen].name
        patch = stencil.fill(name, placement)
        return Injection(patch, name, self.ask.fraction.slices, placement, stencil.memory_mib)

    def _learn(self, key: tuple[object, ...], placement: Placement) -> Stencil | None:
        stencil = self._stencils[key] = self._cut(placement)
        self._take(_BYTES_OF_A_KEY + (stencil.size if stencil is not None else 0))
        return stencil

    def _cut(self, placement: Placement) -> Stencil | None:
        named = Placement(
            placement.indices,
            placement.gpu_mib,
            (MEMORY,) if placement.memory_values else (),
            None if placement.node is None else NODE,
            None if placement.reservation is None else RESERVATION,
            None if placement.model is None else MODEL,
        )
        injection = inject(self._plan, named)
        return (
            None
            if isinstance(injection, Denial)
            else Stencil.cut(injection.patch, injection.container, injection.memory_mib)
        )


class KnownForms:
    """The forms seen so far. Bounded, because pod authors write what a form is made of."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str | None], FormReader] = {}
        self._forms: dict[ReadForm, KnownForm | None] = {}
        self._taken = 0
        """Bytes."""
        self._strangers: set[int] = set()

    def find(
        self, pod: PodOutline, labels: LabelsOutline, namespace: str, policy: EffectivePolicy
    ) -> KnownForm | None:
        """Give what is known of the pod's form; None if the rules must be asked about the pod itself."""
        reader = self._readers.get((policy.marker, policy.queue)) or self._new_reader(policy)
        read = reader.read(pod, labels, namespace)
        if read is None:
            return None
        try:
            return self._forms[read]
        except KeyError:
            return self._meet(read, policy)

    def _new_reader(self, policy: EffectivePolicy) -> FormReader:
        if len(self._readers) >= MOST_POLICIES:
            self._readers.clear()
        reader = self._readers[policy.marker, policy.queue] = FormReader(policy)
        return reader

    def _meet(self, read: ReadForm, policy: EffectivePolicy) -> KnownForm | None:
        """Learn a form when it comes the second time: one that never comes again is cheaper by the rules."""
        if hash(read) in self._strangers:
            return self._learn(Form.of(read), policy)
        if len(self._strangers) >= MOST_STRANGERS:
            self._strangers.clear()
        self._strangers.add(hash(read))
        return None

    def _learn(self, form: Form, policy: EffectivePolicy) -> KnownForm | None:
        # A line's end between two values hides nothing; a backslash before an n is written as two of them.
        text = repr(form).replace("\\n", "")
        # Where a text needs escaping, it could hold a mark.
        if len(text) > LONGEST_FORM or "\\" in text or not text.isascii():
            return None
        self._take(_BYTES_OF_A_FORM + 8 * len(text))
        known = self._forms[form] = _decide(form, policy, self._take)
        return known

    def _take(self, size: int) -> None:
        if self._taken + size > MOST_BYTES:
            self._forms.clear()
            self._taken = 0
        self._taken += size


def _decide(form: Form, policy: EffectivePolicy, take: Callable[[int], None]) -> KnownForm | None:
    """Put a stand-in through the rules; None where they refuse it, or where names would matter to them."""
    try:
        pod = stand_in(form)
    except (msgspec.ValidationError, RecursionError):
        return None
    plan = make_plan(pod, form.namespace, policy, NOTHING_WRITTEN)
    if isinstance(plan, Denial) or len(plan.containers.gpu) > 1 or not _chosen_by_amounts(plan):
        return None
    ask = ask_of(plan, AskingPod(plan.namespace))
    return None if isinstance(ask, Denial) else KnownForm(plan, ask, take)


def _chosen_by_amounts(plan: Plan) -> bool:
    """Whether the GPU container is the only one that it can be, whatever the names."""
    regular = [slot for slot in plan.every if not slot.is_init]
    return len(regular) == 1 or sum(slot.asks_for_gpu for slot in regular) == 1
