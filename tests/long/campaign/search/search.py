"""The search itself: small reviews that reach new lines, grown and mixed while they get dearer."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from types import CodeType

import msgspec

from tests.long.campaign.search.genome import Base, Genome, Grow, without
from tests.long.campaign.search.meter import PRODUCT, Cost, LineCounts, Meter
from tests.long.campaign.search.mutation import Mutator, first
from tests.long.campaign.search.settings import Setting, patched

KIB = 1024
SMALL = 8 * KIB
"""Bytes of reviews that are looked at line by line."""
SIZES = (16 * KIB, 128 * KIB, 1024 * KIB, 3 * 1024 * KIB)
"""Bytes; in each class of size a population of its own."""
OFTEN = (60, 15, 3, 1)
"""How often a class gets its turn, so that each has about as much time."""
MOST_ELITES = 8
MOST_SEEDS = 300
"""Of a setting. Beyond that a new one takes the place of any."""
RICHEST = 2
"""Bases, the first ones, in whose fields every listed value is tried."""
MOST_GROWTHS = 60
"""Of a setting."""
NEWEST = 30
"""Seeds that are chosen as often as all together."""
EXPLORATIONS, CLIMBS = 4, 6
"""Reviews of one step: small ones that are looked at line by line, and measured ones."""
CONFIRMATIONS = 3


@dataclass(frozen=True, slots=True)
class Scored:
    """A genome and what it cost."""

    genome: Genome
    setting: str
    cost: Cost
    bytes: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A review that costs more than any may."""

    scored: Scored
    body: bytes
    where: str
    """Where most of it goes."""
    step: int


@dataclass
class Tally:
    """What a search did."""

    explored: int = 0
    measured: Counter[int] = field(default_factory=Counter)
    """By class of size."""
    confirmed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def steps(self) -> int:
        """All reviews made."""
        return self.explored + sum(self.measured.values())


class Search:
    """Looks for reviews that cost more than `bound`."""

    def __init__(  # noqa: PLR0913, PLR0917 the last is for tests only
        self,
        settings: Mapping[str, Setting],
        bases: Sequence[Base],
        meter: Meter,
        bound: float,
        seed: int,
        code: tuple[str, ...] = PRODUCT,
    ) -> None:
        """Search in reviews made of `bases`; lines of `code` are what a small review is to reach."""
        self._code = code
        self._settings, self._meter, self._bound = settings, meter, bound
        self._dice = random.Random(seed)  # noqa: S311 repeatable, no secret
        self._names = list(settings)
        again = {
            name: [each for base in bases if (each := patched(base, setting)) is not None]
            for name, setting in settings.items()
        }
        self._bases = {name: [*bases, *again[name]] for name in settings}
        documents = [msgspec.json.decode(each.body) for each in (*bases, *again[self._names[0]])]
        self._mutator = Mutator(self._dice, documents)
        self._listed = {
            name: [each for base in bases[:RICHEST] for each in self._mutator.listed(base, SMALL)]
            for name in settings
        }
        """What has not been tried yet of the values that the tests list."""
        self._seeds: dict[str, list[Genome]] = defaultdict(list)
        self._growths: dict[str, dict[tuple[object, ...], Grow]] = defaultdict(dict)
        self._reached: dict[tuple[str, CodeType, int], int] = {}
        self._elites: dict[tuple[str, int], dict[tuple[object, ...], Scored]] = defaultdict(dict)
        self.tally = Tally()
        self.findings: dict[str, Finding] = {}
        """By where most of their time goes: the dearest of each."""

    def step(self) -> None:
        """Explore with small reviews, then measure one of any size."""
        setting = self._dice.choice(self._names)
        for _ in range(EXPLORATIONS):
            self.explore(setting)
        for _ in range(CLIMBS):
            self.climb(setting)

    def explore(self, setting: str) -> None:
        """Try a small review; keep it if it runs a line that none did, or one far more often, or most lines.

        Lines are no time, but they are the same each time: what costs the square of a body shows already.
        """
        listed = self._listed[setting]
        genome = listed.pop() if listed and self._dice.random() < 0.5 else self._parent(setting, SMALL)
        body = genome.body()
        if body is None:
            return
        self.tally.explored += 1
        with LineCounts(self._code) as lines:
            cost = self._meter.explore(setting, self._settings[setting], body)
        self.tally.outcomes[cost.outcome] += 1
        self._keep(Scored(genome, setting, Cost(lines.counts.total(), 0), len(body)), SMALL)
        if self._is_new(setting, lines.counts):
            seeds = self._seeds[setting]
            if len(seeds) >= MOST_SEEDS:
                del seeds[self._dice.randrange(MOST_SEEDS)]
            seeds.append(genome)
            self._learn(setting, genome)

    def _learn(self, setting: str, genome: Genome) -> None:
        """Remember what is grown in a genome that did something new, the newest of each place."""
        known = self._growths[setting]
        for edit in genome.edits:
            if isinstance(edit, Grow):
                known[edit.path, edit.unit[-1:]] = edit
        while len(known) > MOST_GROWTHS:
            del known[next(iter(known))]

    def climb(self, setting: str) -> None:
        """Measure one review of a class of size, and keep it if it is among the dearest there."""
        at = self._dice.choices(range(len(SIZES)), OFTEN)[0]
        genome = self._parent(setting, SIZES[at])
        body = genome.body()
        if body is None:
            return
        self.tally.measured[SIZES[at]] += 1
        cost = self._meter.measure(setting, self._settings[setting], body)
        scored = Scored(genome, setting, cost, len(body))
        if cost.longest > self._bound and self._is_confirmed(scored, body):
            return
        self._keep(scored, SIZES[at])

    def dearest(self, count: int) -> list[Scored]:
        """The most expensive reviews that are no findings, one of each idea, measured again."""
        found: dict[tuple[object, ...], Scored] = {}
        for niche in (each for (_, size), each in self._elites.items() if size > SMALL):
            for signature, each in niche.items():
                known = found.get(signature)
                if known is None or each.cost.longest > known.cost.longest:
                    found[signature] = each
        ranked = sorted(found.values(), key=lambda each: -each.cost.longest)[: 2 * count]
        return sorted(map(self._again, ranked), key=lambda each: -each.cost.longest)[:count]

    def _again(self, scored: Scored) -> Scored:
        setting, body = self._settings[scored.setting], scored.genome.body() or b""
        costs = [self._meter.measure(scored.setting, setting, body) for _ in range(CONFIRMATIONS)]
        return replace(scored, cost=min([scored.cost, *costs], key=lambda each: each.longest))

    def _parent(self, setting: str, size: int) -> Genome:
        """Return a changed genome: of the same niche, a smaller one that is grown, a seed, or a base."""
        dice, kind = self._dice, self._dice.random()
        if dice.random() < 0.2:
            setting = dice.choice(self._names)  # what is dear under one policy may be under another
        elites = [each.genome for each in self._elites[setting, size].values()]
        smaller = [
            each.genome for below in SIZES if below < size for each in self._elites[setting, below].values()
        ]
        seeds = self._seeds[setting]
        if elites and kind < 0.5:
            chosen = dice.choice(elites)
        elif smaller and kind < 0.7:
            chosen = dice.choice(smaller).scaled(size)
        elif seeds and kind < 0.9:
            # The newest have been tried least.
            chosen = dice.choice(seeds[-NEWEST:] if dice.random() < 0.5 else seeds)
            chosen = chosen.scaled(size) if dice.random() < 0.5 else chosen
        else:
            chosen = first(dice.choice(self._bases[setting]), size)
        partners = [*elites, *smaller, *seeds]
        partner = dice.choice(partners) if partners and dice.random() < 0.25 else None
        growths = tuple(self._growths[setting].values())
        return self._mutator.child(replace(chosen, size=size), partner, growths)

    def _is_new(self, setting: str, counts: Mapping[tuple[CodeType, int], int]) -> bool:
        """Whether a line is new, or runs four times as often as it ever did."""
        is_new = False
        for (code, line), count in counts.items():
            level = 1 + int(log2(count)) // 2
            if self._reached.get((setting, code, line), 0) < level:
                self._reached[setting, code, line] = level
                is_new = True
        return is_new

    def _is_confirmed(self, scored: Scored, body: bytes) -> bool:
        """Measure again; what costs too much each time is a finding, reported with as few edits as do."""
        if not self._costs_too_much(scored.setting, body):
            return False
        self.tally.confirmed += 1
        where = self._meter.hottest(scored.setting, self._settings[scored.setting], body)
        known = self.findings.get(where)
        if known is not None and known.scored.cost.longest >= scored.cost.longest:
            return True
        genome = self._least(scored) if known is None else scored.genome
        body = genome.body() or body
        cost = self._meter.measure(scored.setting, self._settings[scored.setting], body)
        self.findings[where] = Finding(
            Scored(genome, scored.setting, cost, len(body)),
            body,
            where,
            known.step if known is not None else self.tally.steps,
        )
        return True

    def _least(self, scored: Scored) -> Genome:
        """Leave out each edit that the finding does not need."""
        genome = scored.genome
        for at in reversed(range(len(genome.edits))):
            shorter = replace(genome, edits=without(genome.edits, at))
            body = shorter.body()
            if body is not None and self._costs_too_much(scored.setting, body):
                genome = shorter
        return genome

    def _costs_too_much(self, setting: str, body: bytes) -> bool:
        return all(
            self._meter.measure(setting, self._settings[setting], body).longest > self._bound
            for _ in range(CONFIRMATIONS - 1)
        )

    def _keep(self, scored: Scored, size: int) -> None:
        niche, signature = self._elites[scored.setting, size], scored.genome.signature
        known = niche.get(signature)
        if known is not None and not _is_better(scored, known):
            return
        niche[signature] = scored
        if len(niche) > MOST_ELITES:
            del niche[min(niche, key=lambda each: niche[each].cost.longest)]


def _is_better(scored: Scored, known: Scored) -> bool:
    """Whether it costs more, or with fewer edits about the same."""
    if len(scored.genome.edits) < len(known.genome.edits):
        return scored.cost.longest > 0.97 * known.cost.longest
    return scored.cost.longest > known.cost.longest
