"""fraction-injector machine run: runs the tasks of queues on the cards of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baremetal.store import state_folder
from cli.options import PoliciesOption, fail, read_policies
from cli.task_options import StateOption
from policies.model.problems import PolicyError, did_you_mean, quoted
from service.options import DEFAULT_POLICIES, LogFormat, LogLevel

if TYPE_CHECKING:
    from policies.loading.strict_yaml import Document
    from policies.model.effective import EffectivePolicy


def _configured(context: typer.Context, file: Path | None) -> Path | None:
    """Take what a file says as defaults of the options, or end the command with the first mistake in it."""
    if file is None:
        return None
    from policies.loading.strict_yaml import read_documents  # noqa: PLC0415 help does not wait for YAML

    try:
        documents = read_documents(str(file), file.read_bytes())
    except OSError as error:
        fail(f"--config {file} cannot be read: {error.strerror}")
    except PolicyError as error:
        fail(str(error))
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        fail(f"--config {file} must be one mapping, such as `queue: {{half_gpu: 0.5}}`")
    options = {param.opts[0].removeprefix("--"): param for param in context.command.params}
    del options["config"], options["more_queues"]
    defaults = [_default(documents[0], key, options) for key in documents[0].data]
    context.default_map = dict(defaults)
    return file


def _default(document: Document, key: str, options: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name of a parameter, and its value in a file."""
    value, option = document.data[key], options.get(key)
    if option is None:
        fail(str(document.problem((key,), f"is no option of `machine run`{did_you_mean(key, options)}")))
    if option.multiple and isinstance(value, dict):
        return option.name, [f"{name}={each}" for name, each in value.items()]
    if option.multiple or isinstance(value, dict | list):
        rule = "must be a mapping from names of queues" if option.multiple else "must be one value"
        fail(str(document.problem((key,), rule)))
    return option.name, value


def run_queues(  # noqa: PLR0913 each is an option of the command
    more_queues: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=SHARE]...", show_default=False, help="More queues.")
    ] = None,
    *,
    gpus: Annotated[str, typer.Option(metavar="NUMBERS", help="Cards to give: 0-2, or 0,1, or all.")] = "all",
    queue: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=SHARE",
            help="Queues in the order of their priority, with the share of each of their tasks: 0.5 of a"
            " card, or 2 cards.",
        ),
    ],
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=IMAGE", help="Run a queue's tasks in containers of this image."),
    ] = None,
    state: StateOption = None,
    policies: PoliciesOption = DEFAULT_POLICIES,
    policy: Annotated[str, typer.Option(metavar="NAME", help="Policy with shares and limiter.")] = "default",
    limiter_library: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="where the limiter says, if it is there",
            help="The limiter's library on this machine.",
        ),
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(metavar="PROGRAM", show_default="podman, else docker", help="Runs containers."),
    ] = None,
    clearml: Annotated[
        bool, typer.Option("--clearml", help="Take tasks from ClearML's queues of these names, too.")
    ] = False,
    page_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            show_default="none",
            help="Show cards and tasks as a page, at http://localhost:PORT/; 0 takes a free one.",
        ),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Minimum level that is logged.")] = "info",
    log_format: Annotated[LogFormat, typer.Option(help="JSON lines, lines for people, or auto.")] = "auto",
    config: Annotated[  # noqa: ARG001 read before the others
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="none",
            is_eager=True,
            callback=_configured,
            help="YAML file with these options, such as `queue: {half_gpu: 0.5}`; those that are typed win.",
        ),
    ] = None,
) -> None:
    """Run queues on the GPUs of this machine: each task gets its share of a card, or whole cards.

    Submit tasks with `machine submit`, see them with `machine tasks`. Tasks go on when this stops or is
    killed; the next start adopts them.
    """
    # Here and not above: the other subcommands must start without policies and driver.
    from baremetal.process import CannotRunError, RunnerOptions, run_machine  # noqa: PLC0415
    from baremetal.queues import read_gpus, read_queues  # noqa: PLC0415
    from service.log import configure_logging  # noqa: PLC0415

    configure_logging(log_level, log_format)
    if clearml and image:
        fail("--image cannot be used with --clearml: ClearML's agent chooses the images")
    effective = _policy(policies, policy)
    try:
        options = RunnerOptions(
            gpus=read_gpus(gpus),
            queues=read_queues(_in_order(queue, more_queues or []), effective, _images(image or [])),
            state=state_folder(state),
            policy=effective,
            limiter_library=limiter_library,
            runtime=runtime,
            clearml=clearml,
            page_port=page_port,
        )
        run_machine(options)
    except (CannotRunError, ValueError) as error:
        fail(str(error))


def _policy(directory: Path, name: str) -> EffectivePolicy:
    compiled = read_policies(directory).compiled.get((None, name))
    if compiled is None:
        fail(f"{directory} has no policy {quoted(name)}: name one with --policy")
    if not compiled.effective.mode.chooses_gpus:
        fail(f'policy "{name}" is of mode {compiled.effective.mode.name}: name one of mode per-gpu')
    return compiled.effective


def _in_order(queues: list[str], more: list[str]) -> list[str]:
    """Return the queues of `--queue A B C`; the command line does not say where others would belong."""
    if len(queues) > 1 and more:
        fail("--queue: write it once, with all queues after it in their order, or before each of them")
    return queues + more


def _images(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((text for text, pair in zip(texts, pairs, strict=True) if not pair[2]), None):
        fail(f"--image {quoted(wrong)} must be QUEUE=IMAGE")
    return {name: image for name, _, image in pairs}
