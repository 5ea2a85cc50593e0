"""Reads a policy directory and prints the part of one policy that a node needs, as JSON.

The agent runs it as a separate process: reading policies needs libraries of about 20 MiB, which would
otherwise stay in the agent's memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from agent.settings import NO_LIMITER, AgentPolicy, LimiterPart
from policies.loading.loader import parse_policies, read_directory
from policies.model.effective import EffectiveLimiter, EffectivePolicy
from policies.model.problems import PolicyError


def compile_policy(directory: Path, name: str) -> AgentPolicy:
    """Return the part of a policy that a node needs.

    Raises:
        PolicyError: the directory is not a valid policy directory.
        LookupError: it has no such policy, or one that gives no slices.
    """
    compiled = parse_policies(read_directory(directory)).compiled.get((None, name))
    if compiled is None:
        raise LookupError(f'{directory} has no policy "{name}": name one of its policies with --policy')
    if compiled.effective.mode.gives_instances:
        rule = "gives MIG instances, which NVIDIA's plugin advertises: name one of slices with --policy"
        raise LookupError(f'policy "{name}" {rule}')
    return part_for_nodes(compiled.effective)


def part_for_nodes(policy: EffectivePolicy) -> AgentPolicy:
    """Return the part of a compiled policy that a node needs."""
    return AgentPolicy(
        name=policy.name,
        mode=policy.mode.name,
        resource=policy.mode.resource,
        slices_per_gpu=policy.slices_per_gpu,
        reserve_mib=policy.reserve_mib,
        # With limits from admission the pod has its own limiter, which ours would override.
        limiter=_limiter(policy.limiter) if policy.limits_from == "agent" else LimiterPart(NO_LIMITER),
    )


def _limiter(limiter: EffectiveLimiter) -> LimiterPart:
    return LimiterPart(
        name=limiter.name,
        env=tuple((variable.name, variable.value) for variable in limiter.env),
        preload=limiter.preload,
        library_path=limiter.library.mount_path if limiter.library is not None else None,
        cache_path=limiter.cache.mount_path if limiter.cache is not None else None,
        cache_size=limiter.cache.size_limit if limiter.cache is not None else None,
    )


def main() -> int:
    """Print the policy; return 2 with the reason on stderr if there is none."""
    directory, name = sys.argv[1:]
    try:
        sys.stdout.buffer.write(msgspec.json.encode(compile_policy(Path(directory), name)))
    except (PolicyError, LookupError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
