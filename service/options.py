"""How a process is started: one dataclass. Its fields define the command line and its help.

A field of it is `port: Annotated[int, Flag("TLS port.", min=0, max=65535)] = 8443`. `cli.process_command`
makes the subcommand. Little is imported here, because the agent loads little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

LogLevel = Literal["info", "warning", "error"]
"""The minimum level that is written."""
LogFormat = Literal["auto", "json", "text"]
"""JSON lines, lines for people, or whichever fits the output."""
LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
LOOPBACK = "127.0.0.1"
LOCALHOST = ("localhost",)
PACKAGES = Path(__file__).resolve().parent.parent
"""Where our packages are: the checkout, or the folder into which the wheel was installed."""
DEFAULT_POLICIES = PACKAGES / "policies"


@dataclass(frozen=True, slots=True)
class Flag:
    """What the command line says of a field."""

    help: str
    _: KW_ONLY
    name: str | None = None
    """None for the field's name, with dashes."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    default: str | None = None
    """What the help says instead of the default value."""
    hidden: bool = False
    """Left out of the help: for tests only."""
    parse: Callable[[str], object] | None = None
    """Makes the value of a text, or raises ValueError with a message that names the flag."""


Host = Annotated[str, Flag("Address to listen on.")]
HealthPort = Annotated[
    int, Flag("Plain port for /livez, /readyz and /metrics; 0 takes a free one.", min=0, max=65535)
]
TlsNames = Annotated[
    tuple[str, ...],
    Flag(
        "Name that the certificate must be valid for.", name="--tls-name", metavar="NAME", default="localhost"
    ),
]
StopDelay = Annotated[float, Flag("Seconds to keep serving after SIGTERM, unready, before draining.", min=0)]
MinimumLevel = Annotated[LogLevel, Flag("Minimum level that is logged; decisions are of level info.")]
LineFormat = Annotated[
    LogFormat, Flag("JSON lines, lines for people, or auto: lines for people on a terminal, else JSON.")
]
