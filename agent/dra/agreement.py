"""A hook that stops a container whose parts of cards have different limits.

The containers of a pod may have parts of different sizes from one claim, each by its own request. A
container that names the whole claim would get the last of their limits for all of its cards. Which containers
name which requests is in the pod, which the agent does not read; the runtime's configuration of a container
shows it.
"""

from __future__ import annotations

from typing import Any

from agent.driver_limits import PATH, SHELL
from agent.limits import memory_variable
from agent.settings import AgentPolicy
from agent.shares import Share

_SCRIPT = r"""
state=$(cat)
bundle=${state#*'"bundle":'}; bundle=${bundle#*'"'}; bundle=${bundle%%'"'*}
found=$(cat "$bundle/config.json")
found=${found#*,'"env":['}; found=${found#*",\"$0="}; found=${found%%'"'*}
[ "$found" = "$1" ] && exit 0
echo "$0 would have to be $1 for one GPU of this container and something else for another:" \
  "name one request of the ResourceClaim in resources.claims, or ask for equal amounts" >&2
exit 1
""".strip()
"""Gets a variable and its value, and the container's state as a runtime gives it to hooks.

In a runtime's JSON a quote in a text has a backslash before it, so that no text of a pod looks like `,"`.
The process is the first part with variables; what is cut off wrongly agrees with no limit, and stops the
container.
"""


def agreement_hook(share: Share, policy: AgentPolicy) -> list[dict[str, Any]]:
    """Return the hook of a share's CDI device; none if no variable of the limiter has the limit."""
    found = memory_variable(share, policy)
    if found is None:
        return []
    arguments = ["sh", "-c", _SCRIPT, *found]
    return [{"hookName": "createRuntime", "path": SHELL, "args": arguments, "env": [PATH]}]
