"""A subcommand that runs a process: its options are the fields of the process's options dataclass.

It is separate from `cli.options`, so that the agent loads little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import typer

from service.options import Flag


def process_command(run: Callable[[Any], None]) -> Callable[..., None]:
    """Return a Typer command for a function that takes a process's options dataclass.

    If a field's parser or the dataclass raises ValueError, the command ends with its text.
    """
    [options] = (hint for name, hint in get_type_hints(run).items() if name != "return")
    given = {field.name: (field, kind, flag) for field, kind, flag in options_of(options)}

    def command(**values: Any) -> None:
        try:
            read = {name: _read(value, given[name][2]) for name, value in values.items()}
            made = options(**{name: value for name, value in read.items() if value is not None})
        except ValueError as error:
            from cli.options import fail  # noqa: PLC0415 the agent loads little

            fail(str(error))
        run(made)

    parameters = [_parameter(*each) for each in given.values()]
    command.__doc__ = run.__doc__
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    cast("Any", command).__signature__ = Signature(parameters)
    return command


def options_of(options: type) -> Iterator[tuple[Field[Any], Any, Flag]]:
    """Yield each field of a dataclass that is a command line option, with its type and its flag."""
    hints = get_type_hints(options, include_extras=True)
    for field in fields(options):
        if get_origin(hints[field.name]) is Annotated:
            kind, flag = get_args(hints[field.name])
            yield field, kind, flag


def name_of(field: Field[Any], flag: Flag) -> str:
    """Return the flag's name on the command line."""
    return flag.name or f"--{field.name.replace('_', '-')}"


def _parameter(field: Field[Any], kind: Any, flag: Flag) -> Parameter:
    """Return the type for Typer: a list for several values, and text for values that are parsed here."""
    default = Parameter.empty if field.default is MISSING else field.default
    if get_origin(kind) is tuple:
        kind, default = list[str if flag.parse else get_args(kind)[0]] | None, None  # type: ignore[misc]
    elif flag.parse:
        kind, default = str | None, default if isinstance(default, str) else None
    shown = typer.Option(
        name_of(field, flag),
        help=flag.help,
        metavar=flag.metavar,
        min=flag.min,
        max=flag.max,
        show_default=flag.default or True,
        hidden=flag.hidden,
    )
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


def _read(value: Any, flag: Flag) -> Any:
    """Return a field's value; None for its default."""
    if isinstance(value, list):
        return tuple(map(flag.parse, value) if flag.parse else value) or None
    return flag.parse(value) if flag.parse and value is not None else value
