"""Every mode by name. A new mode is a module and an entry here, in `ModeName` and in the policies' schema."""

from __future__ import annotations

from collections.abc import Mapping

from modes.dra import ByClaim
from modes.mig import Mig
from modes.mode import Mode, ModeName
from modes.per_gpu import PerGpu
from modes.pooled import Pooled

INSTANCE_MODE: ModeName = Mig.name
"""The mode whose shares are instances; a policy may allow it in addition to slices."""
CLAIM_MODE: ModeName = ByClaim.name
"""The mode whose pods get claims."""
MODES: Mapping[ModeName, type[Mode]] = {"per-gpu": PerGpu, "pooled": Pooled, "dra": ByClaim, "mig": Mig}
