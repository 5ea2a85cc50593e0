"""The meaning of the label: a share of one GPU in slices, or a number of whole GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

ALLOWED_SLICES_PER_GPU = (2, 4, 8, 16)
MAX_CONTAINERS = 16
"""Maximum number of containers of a pod that share its fraction."""

_DECIMAL = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Fraction:
    """A number of slices on GPUs of `slices_per_gpu` slices each; never a float.

    It is a part of one GPU, the same part of each of several GPUs, or a number of whole GPUs. One and a half
    GPUs is not allowed.

    Raises:
        ValueError: `slices_per_gpu` is not one of 2, 4, 8, 16; `slices` is neither a part of each of `parts`
            GPUs nor whole GPUs; `exact` is not a part of one GPU; or `split` does not add up to `slices`.
    """

    slices: int
    """All slices: 4 is half of a GPU of 8 slices, 16 are two whole GPUs."""
    slices_per_gpu: int
    parts: int = 1
    """Number of different GPUs that each give the same part: 8 slices in 2 parts are half of two GPUs."""
    exact: tuple[int, int] | None = None
    """Numerator and denominator of a share of each GPU that is less than its slices, such as "0.2"; None if
    the slices are the share."""
    mib: int = 0
    """MiB that the share of each GPU must hold, if the pod requested MiB; 0 if they follow from the slices.
    `slices` are then the fewest that hold them on one kind of GPU (`on_card`)."""
    split: tuple[int, ...] = ()
    """Slices of each of several containers that share one GPU; empty if one container gets all."""
    split_mib: tuple[int, ...] = ()
    """MiB that each of these containers must get, if the pod requested MiB."""
    is_apart: bool = False
    """Whether the containers' slices are on different GPUs of one node."""

    def __post_init__(self) -> None:
        if self.slices_per_gpu not in ALLOWED_SLICES_PER_GPU:
            raise ValueError(f"slicesPerGpu {self.slices_per_gpu} is not one of 2, 4, 8, 16")
        if self.split or self.is_apart:
            self._check_split()
        elif self.parts != 1:
            self._check_parts()
        elif self.slices < 1 or (self.slices > self.slices_per_gpu and self.slices % self.slices_per_gpu):
            raise ValueError(
                f"{self.slices} slices are neither 1 to {self.slices_per_gpu} of one GPU nor whole GPUs"
            )
        if self.exact is not None and not 0 < self.exact[0] < self.exact[1]:
            raise ValueError(f"{self.exact[0]}/{self.exact[1]} is not a part of one GPU")
        if self.mib < 0 or (self.mib and not self.split and self.slices > self.slices_per_gpu * self.parts):
            raise ValueError(f"{self.mib} MiB in {self.slices} slices are not a part of {self.parts} GPUs")

    @staticmethod
    def ratio_of_text(text: str) -> tuple[int, int] | None:
        """Return a decimal such as "0.500" as numerator and denominator; None for other texts and for 0."""
        if _DECIMAL.fullmatch(text) is None:
            return None
        whole, _, decimals = text.partition(".")
        share = int(whole + decimals)
        return (share, 10 ** len(decimals)) if share else None

    @classmethod
    def from_text(cls, text: str, slices_per_gpu: int) -> Fraction:
        """Read a decimal such as "0.500" or "2" exactly, as integers.

        A policy's table of allowed texts is built with it; a label is only looked up in that table.

        Raises:
            ValueError: `text` is not a plain decimal number or not a whole number of slices.
        """
        fraction = cls.rounded_up(text, slices_per_gpu)
        if fraction.exact is not None:
            raise ValueError(f'"{text}" is not a whole number of slices (slicesPerGpu {slices_per_gpu})')
        return fraction

    @classmethod
    def rounded_up(cls, text: str, slices_per_gpu: int) -> Fraction:
        """Read any decimal such as "0.2" exactly, with the fewest slices that hold it.

        Raises:
            ValueError: `text` is not a plain decimal number, is zero, or is neither a part of one GPU
                nor whole GPUs.
        """
        if _DECIMAL.fullmatch(text) is None:
            raise ValueError(f'"{text}" is not a plain decimal number such as "0.500"')
        share, one = cls.ratio_of_text(text) or (0, 1)
        slices, rest = divmod(share * slices_per_gpu, one)
        if not share or (rest and share > one):
            raise ValueError(f'"{text}" is neither a part of one GPU nor whole GPUs')
        if not rest:
            return cls(slices, slices_per_gpu)
        common = gcd(share, one)
        return cls(slices + 1, slices_per_gpu, exact=(share // common, one // common))

    @classmethod
    def of_memory(cls, mib: int, slices_per_gpu: int) -> Fraction:
        """Return a request for MiB of one GPU; only `on_card` can say how many slices this takes."""
        return cls(1, slices_per_gpu, mib=mib)

    def on_card(self, gpu_mib: int) -> Fraction | None:
        """Return the same with the slices that it takes on such GPUs; None if they are too small."""
        if not self.mib:
            return self
        asked = self.split_mib or (self.mib,)
        if gpu_mib < (max(asked) if self.is_apart else self.mib):
            return None
        split = [-(-mib * self.slices_per_gpu // gpu_mib) for mib in asked]
        if sum(split) > self.slices_per_gpu and not self.is_apart:
            return None
        return replace(self, slices=sum(split) * self.parts, split=tuple(split) if self.split_mib else ())

    def with_slices(self, slices: int) -> Fraction:
        """Return requested MiB with the slices of an earlier review; unchanged if no GPU gives so many."""
        is_possible = self.parts <= slices <= self.slices_per_gpu * self.parts and not slices % self.parts
        return replace(self, slices=slices) if is_possible else self

    def _check_split(self) -> None:
        # Before `on_card`, MiB are one slice per container, even of more containers than a GPU has slices.
        most = self.slices_per_gpu * (MAX_CONTAINERS if self.is_apart or self.mib else 1)
        if (
            not 1 <= len(self.split) <= MAX_CONTAINERS
            or not all(1 <= slices <= self.slices_per_gpu for slices in self.split)
            or sum(self.split) != self.slices
            or self.slices > most
            or self.parts != 1
        ):
            raise ValueError(f"{self.split} are not parts of {self.slices} slices of one GPU")
        if self.split_mib and (len(self.split_mib) != len(self.split) or sum(self.split_mib) != self.mib):
            raise ValueError(f"{self.split_mib} MiB are not parts of {self.mib}")

    def _check_parts(self) -> None:
        each, rest = divmod(self.slices, max(1, self.parts))
        most = self.slices_per_gpu if self.exact is not None or self.mib else self.slices_per_gpu - 1
        if self.parts < 1 or rest or not 1 <= each <= most:
            raise ValueError(f"{self.slices} slices are not the same part of each of {self.parts} GPUs")

    def on_each_of(self, gpus: int) -> Fraction:
        """Return this part of one GPU, requested of each of `gpus` different GPUs.

        Raises:
            ValueError: it is not a part of one GPU, or `gpus` is less than 1.
        """
        if self.is_whole or self.parts != 1:
            raise ValueError("only a part of one GPU can be requested of each of several")
        return self if gpus == 1 else replace(self, slices=self.slices * gpus, parts=gpus)

    def shared_by(self, containers: Sequence[Fraction]) -> Fraction:
        """Return this part of one GPU divided between containers, which together use all of it.

        Raises:
            ValueError: they do not.
        """
        split = tuple([each.slices for each in containers])
        if not self.mib:
            return replace(self, split=split)
        mib = tuple([each.mib for each in containers])
        return replace(self, slices=sum(split), mib=sum(mib), split=split, split_mib=mib)

    def part(self, container: int) -> Fraction:
        """Return the part of one container, by its position in `split`."""
        mib = self.split_mib[container] if self.split_mib else 0
        return Fraction(self.split[container], self.slices_per_gpu, mib=mib)

    def apart(self) -> Fraction:
        """Return the same, with the containers' slices on different GPUs of one node."""
        return replace(self, is_apart=True)

    @property
    def bins(self) -> tuple[int, ...]:
        """The empty GPU, numbered from 0, that each container gets: the fewest GPUs by first fit."""
        free: list[int] = []
        bins = [0] * len(self.split)
        for at in sorted(range(len(self.split)), key=lambda at: -self.split[at]):
            slices = self.split[at]
            found = next((each for each, left in enumerate(free) if left >= slices), len(free))
            if found == len(free):
                free.append(self.slices_per_gpu)
            free[found] -= slices
            bins[at] = found
        return tuple(bins)

    @cached_property
    def gpus(self) -> int:
        """Number of GPUs used; if containers are on different GPUs, the fewest possible."""
        if self.is_apart:
            return max(2, max(self.bins) + 1)
        return self.parts if self.parts != 1 else self.slices // self.slices_per_gpu or 1

    @cached_property
    def is_whole(self) -> bool:
        """Whether the pod gets all of each GPU, so that there is nothing to limit."""
        is_limited = self.exact is not None or self.mib > 0
        return not is_limited and self.parts == 1 and self.slices % self.slices_per_gpu == 0

    @cached_property
    def slices_on_each(self) -> int:
        """Slices on each GPU used."""
        return self.slices // self.parts if self.parts != 1 else min(self.slices, self.slices_per_gpu)

    @property
    def counts(self) -> frozenset[int]:
        """Amounts of whole GPUs or slices that agree: one, the GPUs, all slices, and those on each GPU."""
        return frozenset({1, self.gpus, self.slices, self.slices // self.parts})

    @property
    def counts_text(self) -> str:
        """The same as text: "1 or 4"."""
        return " or ".join(map(str, sorted(self.counts)))

    @cached_property
    def shape(self) -> tuple[int, int, tuple[int, ...]]:
        """Everything that its place on the GPUs of a node depends on."""
        return self.slices, self.parts, tuple(sorted(self.split)) if self.is_apart else ()

    @cached_property
    def pieces(self) -> tuple[int, ...]:
        """Slices that must come from one GPU each: of each container that shares it, or on each GPU used."""
        return self.split or (self.slices_on_each,) * self.gpus

    @property
    def containers(self) -> int:
        """Number of containers that share it; 0 if it is not divided."""
        return len(self.split)

    @property
    def is_of_memory(self) -> bool:
        """Whether MiB were requested, so that the slices depend on the GPU."""
        return self.mib > 0

    @property
    def slices_of_mib(self) -> int:
        """Slices on each GPU used, or in total if containers are apart; 0 if no MiB were requested."""
        if not self.mib:
            return 0
        return self.slices if self.is_apart else self.slices_on_each

    def of_containers(self, gpus: tuple[int, ...]) -> tuple[int, ...]:
        """Return for each container that has a GPU of its own which of these it gets; else all of these."""
        return tuple([gpus[each] for each in self.bins]) if self.is_apart else gpus

    def asked_mib(self, reserve_mib: int = 0) -> int:
        """Return the requested MiB of each GPU without the reserve of each container; 0 for slices."""
        return self.mib - reserve_mib * max(1, self.containers) if self.mib else 0

    def share_mib(self, gpu_mib: int) -> int:
        """Return the MiB of the share on each GPU used, of `gpu_mib` MiB each, rounded down."""
        if self.mib:
            return self.mib
        share, one = self.ratio
        return gpu_mib * share // one

    def mib_of_parts(self, gpu_mib: int) -> tuple[int, ...]:
        """Return the MiB of each container on such a GPU, or of the whole share if it is not divided.

        They are the requested MiB, or in proportion to the containers' slices, rounded down.
        """
        mib = self.share_mib(gpu_mib)
        return self.split_mib or tuple([mib * slices // self.slices for slices in self.split]) or (mib,)

    def limits_mib(self, gpu_mib: int, reserve_mib: int) -> list[int] | None:
        """Return those MiB without the policy's reserve in each; None for whole GPUs."""
        return None if self.is_whole else [mib - reserve_mib for mib in self.mib_of_parts(gpu_mib)]

    @cached_property
    def ratio(self) -> tuple[int, int]:
        """The share of each GPU used, as numerator and denominator."""
        return self.exact or (self.slices_on_each, self.slices_per_gpu)

    @property
    def percent(self) -> int:
        """The same in whole per cent, rounded down but at least 1: for limiters 0 means no limit."""
        return max(1, self.ratio[0] * 100 // self.ratio[1])
