"""Pods as other projects make them (tests/fixtures/shapes), and what the table there expects of each."""

import re
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "fixtures" / "shapes"
AMBIGUOUS = "denied: container-ambiguous"

NOT_YET = {
    "airflow-xcom": AMBIGUOUS,
    "argo-workflows": AMBIGUOUS,
    "argo-workflows-supervisor": AMBIGUOUS,
    "consul": AMBIGUOUS,
    "dapr": AMBIGUOUS,
    "github-arc-dind-beside": AMBIGUOUS,
    "gitlab-runner": AMBIGUOUS,
    "gitlab-runner-service": AMBIGUOUS,
    "istio": AMBIGUOUS,
    "jenkins-agent": AMBIGUOUS,
    "knative-serving": AMBIGUOUS,
    "kserve-predictor": AMBIGUOUS,
    "kubeflow-notebook": AMBIGUOUS,
    "kuberay-head": AMBIGUOUS,
    "linkerd": AMBIGUOUS,
    "opentelemetry-sidecar": AMBIGUOUS,
    "vault-agent": AMBIGUOUS,
}
"""What becomes today of the shapes that the table marks "not yet"."""

_ROW = re.compile(r"^\| (?P<name>[a-z0-9-]+) \| (?P<source>.+) \| .+ \| (?P<expected>.+) \|$", re.MULTILINE)
_MARK = ", not yet"


def table() -> dict[str, tuple[str, str]]:
    """Return the table: name of each shape to its source and to what is expected of it, as written."""
    rows = _ROW.finditer((FOLDER / "README.md").read_text())
    _head, *shapes = rows
    return {row["name"]: (row["source"], row["expected"].replace("`", "")) for row in shapes}


TABLE = table()
MARKED = {name for name, (_, text) in TABLE.items() if text.endswith(_MARK)}
EXPECTED = {name: NOT_YET.get(name, text.removesuffix(_MARK)) for name, (_, text) in TABLE.items()}
"""Name of each shape to the container that gets the share, or to "denied: " and the code."""


def shape(name: str) -> dict[str, Any]:
    """Return a shape as its author sends it."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def holders(pod: dict[str, Any]) -> list[str]:
    """Return the regular containers of an admitted pod that hold slices of a GPU."""
    return [
        each["name"]
        for each in pod["spec"]["containers"]
        if any(name.startswith("nvidia.com/gpu") for name in each.get("resources", {}).get("limits", {}))
    ]
