"""What the label says: a share of one GPU in slices, or a number of whole GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

ALLOWED_SLICES_PER_GPU = (2, 4, 8, 16)

_DECIMAL = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fraction:
    """A number of slices on GPUs of `slices_per_gpu` slices each; never a float.

    Either a part of one GPU, or the same part of each of several, or a whole number of them: half a second
    GPU does not exist.

    Raises:
        ValueError: `slices_per_gpu` is not one of 2, 4, 8, 16, or `slices` is neither a part of each of
            `parts` GPUs nor whole GPUs.
    """

    slices: int
    """Slices in all: 4 is half of a GPU of 8 slices, 16 are two whole ones."""
    slices_per_gpu: int
    parts: int = 1
    """Different GPUs of which a part is asked, the same of each: 8 slices in 2 parts are half of two GPUs."""

    def __post_init__(self) -> None:
        if self.slices_per_gpu not in ALLOWED_SLICES_PER_GPU:
            raise ValueError(f"slicesPerGpu {self.slices_per_gpu} is not one of 2, 4, 8, 16")
        if self.parts != 1:
            self._check_parts()
        elif self.slices < 1 or (self.slices > self.slices_per_gpu and self.slices % self.slices_per_gpu):
            raise ValueError(
                f"{self.slices} slices are neither 1 to {self.slices_per_gpu} of one GPU nor whole GPUs"
            )

    @classmethod
    def from_text(cls, text: str, slices_per_gpu: int) -> Fraction:
        """Read a decimal such as "0.500" or "2" exactly, as integers.

        This is how a policy's table of allowed texts is made; a label is only ever looked up in it.

        Raises:
            ValueError: `text` is no plain decimal number or no whole number of slices.
        """
        if _DECIMAL.fullmatch(text) is None:
            raise ValueError(f'"{text}" is not a plain decimal number such as "0.500"')
        whole, _, decimals = text.partition(".")
        scale = 10 ** len(decimals)
        slices, rest = divmod(int(whole + decimals) * slices_per_gpu, scale)
        if rest or slices == 0:
            raise ValueError(f'"{text}" is not a whole number of slices (slicesPerGpu {slices_per_gpu})')
        return cls(slices, slices_per_gpu)

    def _check_parts(self) -> None:
        each, rest = divmod(self.slices, max(1, self.parts))
        if self.parts < 1 or rest or each not in range(1, self.slices_per_gpu):
            raise ValueError(f"{self.slices} slices are not the same part of each of {self.parts} GPUs")

    def on_each_of(self, gpus: int) -> Fraction:
        """Return this part of one GPU asked of each of so many different ones.

        Raises:
            ValueError: it is no part of one GPU, or `gpus` is less than 1.
        """
        if self.is_whole or self.parts != 1:
            raise ValueError("only a part of one GPU can be asked of each of several")
        return self if gpus == 1 else Fraction(self.slices * gpus, self.slices_per_gpu, gpus)

    @property
    def gpus(self) -> int:
        """GPUs touched: n for a part of each of n, or for n whole ones."""
        return self.parts if self.parts != 1 else self.slices // self.slices_per_gpu or 1

    @property
    def is_whole(self) -> bool:
        """Whether nothing of a touched GPU is left for others."""
        return self.parts == 1 and self.slices % self.slices_per_gpu == 0

    @property
    def slices_on_each(self) -> int:
        """Slices on each touched GPU."""
        return self.slices // self.parts if self.parts != 1 else min(self.slices, self.slices_per_gpu)

    def share_mib(self, gpu_mib: int) -> int:
        """Return the MiB of the share on each touched GPU of `gpu_mib` MiB, rounded down."""
        return gpu_mib * self.slices_on_each // self.slices_per_gpu
