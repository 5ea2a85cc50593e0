"""Changes of a genome: another value, another key, something grown, copied, or both of two dear reviews."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from tests.long.campaign.search import words
from tests.long.campaign.search.genome import ODD_JSON, Base, Copy, Edit, Genome, Grow, Odd, Put, without
from tests.long.campaign.search.schema import ANY_KEY, Field, Path, paths, review_field
from tests.webhook.support.field_values import GONE, VALUES, Also
from tests.webhook.support.mutations import FIELDS, places_in

MOST_EDITS = 8
COUNTS = (1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000, 3_000_000)


class Mutator:
    """Changes genomes by dice."""

    def __init__(self, dice: random.Random, documents: Sequence[Any]) -> None:
        self._dice = dice
        self._words = words.words()
        self._listed = words.values_of_fields()
        self._known = words.values_of_keys(documents)
        self._known_keys = tuple(self._known)
        self._keys_of = words.keys_of_maps(documents)
        self._paths = [
            ([path for path in paths() if _place(path) == place], weight)
            for place, weight in ((0, 75), (1, 8), (2, 8), (3, 9))
        ]
        self._texts = tuple(
            sorted({each for values in self._known.values() for each in values if isinstance(each, str)})
        )

    def listed(self, base: Base, size: int) -> list[Genome]:
        """Return a genome for each listed value of each field that stands in a base, in any order."""
        places = places_in(msgspec.json.decode(base.body))
        found = [
            Genome(base, (_put((*path, FIELDS[name].encode_name), value),), size)
            for kind, path in places
            for name, values in VALUES.items()
            if name.partition(".")[0] == kind.__name__
            for value in values
        ]
        self._dice.shuffle(found)
        return found

    def child(self, parent: Genome, partner: Genome | None = None, growths: Sequence[Grow] = ()) -> Genome:
        """Return a genome that differs in one to three edits, or that has edits of a second one too.

        `growths` are some that others have, and that made a difference there.
        """
        dice, edits = self._dice, parent.edits
        self._growths = growths
        self._made = [path for each in edits for path in _places_by(each)]
        self._there = places_of(parent.base)
        if partner is not None:
            others = [each for each in partner.edits if dice.random() < 0.7]
            edits = (*edits, *others) if dice.random() < 0.5 else (*others, *edits)
        for _ in range(dice.choice((1, 1, 2, 3)) if partner is None else dice.choice((0, 0, 1))):
            edits = self._changed(edits)
        while len(edits) > MOST_EDITS:
            edits = without(edits, dice.randrange(len(edits)))
        return replace(parent, edits=edits)

    def _changed(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        dice, kind = self._dice, self._dice.random()
        if edits and kind < 0.12:
            return without(edits, dice.randrange(len(edits)))
        if edits and kind < 0.42:
            at = dice.randrange(len(edits))
            return (*edits[:at], self._tweaked(edits[at]), *edits[at + 1 :])
        if len(edits) > 1 and kind < 0.48:
            moved = list(edits)
            moved.insert(dice.randrange(len(moved)), moved.pop(dice.randrange(len(moved))))
            return tuple(moved)
        at = dice.choice((len(edits), dice.randint(0, len(edits))))
        return (*edits[:at], self._edit(), *edits[at:])

    def _edit(self) -> Edit:
        dice, kind = self._dice, self._dice.random()
        if self._growths and kind < 0.3:
            return dice.choice(self._growths)
        path, kind = self._path(), dice.random()
        if kind < 0.4:
            return self._put(path)
        if kind < 0.85:
            return self._grow(path)
        if kind < 0.95:
            return Copy(self._path(), path)
        return Odd(path, dice.choice(tuple(ODD_JSON)), dice.choice(COUNTS))

    def _tweaked(self, edit: Edit) -> Edit:
        dice = self._dice
        if isinstance(edit, Grow | Odd) and dice.random() < 0.5:
            times = dice.choice((0.1, 0.5, 0.8, 1.25, 2, 10))
            return replace(edit, count=max(1, min(COUNTS[-1], round(edit.count * times))))
        if isinstance(edit, Grow):
            fresh = self._grow(edit.path)
            field = dice.choice(("unit", "value", "numbered"))
            return replace(edit, **{field: getattr(fresh, field)})
        if isinstance(edit, Put):
            return self._put(edit.path)
        return replace(edit, path=self._path())

    def _path(self) -> Path:
        """A place that is there, or one of the schema: in a list the first, second or last, in a map any."""
        dice = self._dice
        kind = dice.random()
        if kind < 0.5 and (places := self._made if self._made and kind < 0.25 else self._there):
            return dice.choice(places)
        places = dice.choices([each for each, _ in self._paths], [weight for _, weight in self._paths])[0]
        path: Path = ()
        for step in dice.choice(places):
            if step == ANY_KEY:
                path = (*path, self._key(path))
            else:
                path = (*path, dice.choice((0, 0, 0, 1, -1)) if step == 0 else step)
        return path

    def _key(self, path: Path = ()) -> str:
        """A key for the map at a path: one that was seen in such a map, else any word."""
        seen = self._keys_of.get(str(path[-1])) if path else None
        if seen and self._dice.random() < 0.6:
            return self._dice.choice(seen)
        return self._dice.choice(self._known_keys if self._dice.random() < 0.4 else self._words)

    def _put(self, path: Path) -> Put:
        dice = self._dice
        field, name = review_field().at(path), path[-1]
        listed = self._listed.get(str(name), ())
        if listed and dice.random() < 0.6:
            return _put(path, dice.choice(listed))
        if field is not None and field.member is not None:
            key = self._key(path)
            return Put(path, {key: self._value(key)}, merged=True)
        if dice.random() < 0.85:
            return Put(path, self._value(str(name)))
        return Put(path, dice.choice(words.ODD_VALUES))

    def _value(self, key: str) -> Any:
        """A value that was seen at such a key, else any text that means something."""
        known = self._known.get(key)
        if known and self._dice.random() < 0.7:
            return self._dice.choice(known)
        return self._dice.choice(self._texts if self._dice.random() < 0.5 else self._words)

    def _grow(self, path: Path) -> Grow:
        dice = self._dice
        item = _item(path)
        texts = [name for name, each in item.fields.items() if each.is_text] if item is not None else []
        return Grow(
            path,
            dice.choice(COUNTS),
            self._unit(str(path[-1])),
            self._value(self._key()),
            dice.choice([*texts, *texts, None]) if texts else None,
        )

    def _unit(self, key: str) -> str:
        dice, kind = self._dice, self._dice.random()
        if kind < 0.25:
            return dice.choice(words.UNITS)
        value = str(self._value(key)) if kind < 0.75 else self._key()
        signs = sorted({each for each in value if not each.isalnum()}) or [","]
        if kind < 0.4:
            return dice.choice(("", "#", "x")) + dice.choice(signs)  # as its words are parted
        return value + dice.choice(("#", "#", ",", "#,", f"#{dice.choice(signs)}", dice.choice(signs), ""))


def _put(path: Path, value: Any) -> Put:
    """An edit that writes a listed value."""
    if value is GONE:
        return Put(path, None, merged=True)
    return Put(path, value.members, merged=True) if isinstance(value, Also) else Put(path, value)


@cache
def places_of(base: Base) -> tuple[Path, ...]:
    """Where something stands in a base, of lists in their first two elements."""
    found: list[Path] = []
    waiting: list[tuple[Path, Any]] = [((), msgspec.json.decode(base.body))]
    while waiting:
        path, one = waiting.pop()
        members = (
            one.items() if isinstance(one, dict) else enumerate(one[:2]) if isinstance(one, list) else ()
        )
        for key, value in members:
            found.append((*path, key))
            waiting.append(((*path, key), value))
    return tuple(sorted((path for path in found if path[:2] == ("request", "object")), key=str))


def _places_by(edit: Edit) -> list[Path]:
    """Where an edit makes something."""
    if isinstance(edit, Put) and edit.merged and isinstance(edit.value, dict):
        return [(*edit.path, key) for key in list(edit.value)[:4]]
    return [edit.path]


def _item(path: Path) -> Field | None:
    return review_field().at((*path, 0))


def _place(path: Path) -> int:
    """Which part of a review a path is in: a pod, a Job's template, the old object, or none of them."""
    if path[:2] == ("request", "oldObject"):
        return 2
    if path[:2] != ("request", "object"):
        return 3
    return 1 if path[2:4] == ("spec", "template") else 0


def first(base: Base, size: int) -> Genome:
    """Return the genome of a review as it is."""
    return Genome(base, (), size)
