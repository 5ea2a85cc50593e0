"""Common options of several subcommands, and their error messages.

It loads nothing of the product, so that help and usage errors are printed at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cli.printing import say
from service.options import PACKAGES

if TYPE_CHECKING:
    from ledger.ledger import Ledger
    from modes.resource_names import ResourceNames
    from policies.loading.policy_set import PolicySet

DEMO = next(filter(Path.is_dir, [PACKAGES / "examples" / "demo", PACKAGES / "cli" / "demo_files"]), PACKAGES)
"""The demo's files: in a checkout under examples, in the wheel inside the package."""
DEMO_INVENTORY = DEMO / "inventory.yaml"

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "default"
UNUSABLE = 2
"""Exit status for input that cannot be read."""

PoliciesOption = Annotated[
    Path,
    typer.Option(
        "--policies",
        metavar="PATH",
        show_default="the built-in default policy",
        help="Directory of policy files, one of these, or their ConfigMap: output of `kubectl get -o yaml`.",
    ),
]
FilenameOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--filename", "-f", metavar="FILE", show_default=False, help="The same, as kubectl takes files."
    ),
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        metavar="FILE",
        show_default="the demo's four nodes",
        help="Nodes, and optional pods, resourceslices and resourceclaims: output of `kubectl get -o yaml`.",
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="$KUBECONFIG, ~/.kube/config, or the service account of the pod",
        help="Kubeconfig to use.",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="the current one", help="Context of the kubeconfig."),
]

RELEASE = "gpu-fraction-injector/fraction-injector"
ReleaseOption = Annotated[
    str,
    typer.Option(
        metavar="NAMESPACE/NAME",
        envvar="FRACTION_INJECTOR_RELEASE",
        help="The installation; its name is that of its webhook configuration.",
    ),
]
AllNamespacesOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces, as without --namespace.")
]


class OutputFormat(StrEnum):
    """How a command prints its answer."""

    TEXT = "text"
    JSON = "json"


class LedgerOutput(StrEnum):
    """The output format of a ledger."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="json: a list of facts for scripts.")
]

GpuResourceOption = Annotated[
    str,
    typer.Option(
        "--gpu-resource", metavar="NAME", help="Resource name of one GPU's slices, as in the policies."
    ),
]


def files_of(given: list[Path] | None, named: list[Path] | None) -> list[Path]:
    """Return the files of the arguments and of --filename, or end the command if there are none."""
    files = [*(given or ()), *(named or ())]
    return files or fail("no file: name one, or - for standard input")


def release_of(given: str) -> tuple[str, str]:
    """Return namespace and name of an installation, or end the command if the text is invalid."""
    namespace, _, name = given.partition("/")
    if not namespace or not name or "/" in name:
        fail(f'--release "{given}" must be NAMESPACE/NAME, such as {RELEASE}')
    return namespace, name


def resource_names_of(gpu_resource: str) -> ResourceNames:
    """Return the resource names to count, or end the command if the name has no index."""
    from modes.resource_names import per_gpu_names  # noqa: PLC0415 see above

    try:
        return per_gpu_names(gpu_resource)
    except ValueError as error:
        fail(f"--gpu-resource {error}")


def kubeconfig_of(given: Path | None) -> Path | None:
    """Return the kubeconfig to use; None in a pod without one, which uses its service account."""
    if given is not None:
        return given
    # kubectl merges several files; almost always the first existing one has the current context.
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    usual = Path("~/.kube/config").expanduser()
    found = next((file for file in named if os.access(file, os.F_OK)), named[0] if named else usual)
    in_pod = not named and not usual.exists() and "KUBERNETES_SERVICE_HOST" in os.environ
    return None if in_pod else found


def namespace_of(kubeconfig: Path | None, context: str | None = None) -> str:
    """Return the namespace of a kubeconfig's context; in a pod its own; else `default`."""
    if kubeconfig is None:
        with contextlib.suppress(OSError):
            return POD_NAMESPACE.read_text().strip()
        return DEFAULT_NAMESPACE
    import yaml  # noqa: PLC0415 see above

    try:
        found = yaml.safe_load(kubeconfig.read_bytes())
        wanted = found["current-context"] if context is None else context
        [settings] = [each["context"] for each in found["contexts"] if each["name"] == wanted]
        return str(settings.get("namespace") or DEFAULT_NAMESPACE)
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError):
        return DEFAULT_NAMESPACE  # who connects says what is wrong with the file


def fail(message: str) -> NoReturn:
    """End the command with a message for unusable input."""
    say(f"fraction-injector: {message}", err=True)
    raise typer.Exit(UNUSABLE)


def read_policies(path: Path) -> PolicySet:
    """Read a policy directory, file or ConfigMap, or end the command with every problem in it."""
    return parsed_policies(path, policy_files(path))


def policy_files(path: Path) -> dict[str, bytes]:
    """Read the policy files at a path, or end the command if it cannot be read."""
    from policies.loading.loader import files_in, read_directory  # noqa: PLC0415 see above
    from policies.loading.strict_yaml import MAX_BYTES, read_documents  # noqa: PLC0415
    from policies.model.problems import PolicyError  # noqa: PLC0415

    try:
        if path.is_dir():
            return read_directory(path)
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        return files_in(path.name, content, read_documents(path.name, content))
    except OSError as error:
        fail(f"--policies {path}: {error.strerror}: name a folder of policy files, or a file")
    except PolicyError as error:
        fail(f"--policies {path} is not valid\n{error}")


def parsed_policies(path: Path, files: Mapping[str, bytes], *, by_claim: bool = False) -> PolicySet:
    """Return the policies in the files of a path, or end the command with every problem in them.

    `by_claim` says whether the mode `auto` means `dra`.
    """
    from policies.loading.loader import parse_policies  # noqa: PLC0415 see above
    from policies.model.problems import PolicyError  # noqa: PLC0415

    try:
        return parse_policies(files, by_claim=by_claim)
    except PolicyError as error:
        fail(f"--policies {path} is not valid\n{error}")


def read_ledger(policies: PolicySet, file: Path | None) -> Ledger:
    """Return a ledger with the given inventory or the demo's, or end the command with the mistake."""
    from cli.manifests import ManifestError, read_inventory  # noqa: PLC0415 see above

    if file is None:
        typer.echo(f"inventory: {DEMO_INVENTORY.name} of the demo (use --inventory FILE for yours)", err=True)
    try:
        return read_inventory(file or DEMO_INVENTORY, policies.resource_names)
    except ManifestError as error:
        fail(str(error))
