"""Pods of any size that are made of one list, map or text of a pod: the worst that their author can do.

An API server checks names and numbers only after the mutating webhooks.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch

from policies.loading.loader import load_policies
from testbed.instant_placer import ReadyPlacer
from testbed.members import GPU, JOBS, LIBRARY, MEMBERS, TEXTS, UNREAD, Member
from webhook.admission.pod import LABEL
from webhook.admission.sizes import MAX_BYTES
from webhook.review import Reviewer
from webhook.rules import Rules

SIZE = MAX_BYTES - 64
"""Bytes of the largest review that the rules decide; the pods below are a few bytes longer or shorter."""
SHOWN = 120
"""Characters of a member in a shape's name."""
POLICIES = Path(__file__).parent.parent / "policies"
Review = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to grow a pod."""

    group: str
    """What is grown, for a reader: a row of the bench."""
    name: str
    make: Callable[[int], bytes]
    """An AdmissionReview of about so many bytes."""


def shapes() -> list[Shape]:
    """Every way; names are unique."""
    found = []
    for prefix, base in (("", _fresh), ("injected: ", _injected)):
        for group, rows in MEMBERS.items():
            if base is _fresh or group not in UNREAD:
                found += [Shape(group, prefix + _title(*row), _growing(base, *row)) for row in rows]
        found += [Shape("texts", f"{prefix}one text, {path}", _stretching(base, path)) for path in TEXTS]
        found += [Shape("odd JSON", prefix + name, _odd(base, text)) for name, text in _ODD.items()]
    found += [Shape("Jobs", "Job: " + _title(*row), _growing(_job, *row)) for row in JOBS]
    found += [Shape("made with care", name, make) for name, make in _CAREFUL.items()]
    return found


def compact(review: Any) -> bytes:
    """JSON text as an API server writes it."""
    return json.dumps(review, separators=(",", ":")).encode()


def _fresh() -> Review:
    """A labelled pod with two containers and one init container."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "6f7a1f0e-0000-4000-8000-000000000001",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team",
            "operation": "CREATE",
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "train", "labels": {LABEL: "0.500"}, "annotations": {}},
                "spec": {
                    "initContainers": [{"name": "first", "image": "a:1"}],
                    "containers": [_train(), {"name": "side", "image": "a:1"}],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                },
            },
        },
    }


def _train() -> dict[str, Any]:
    return {
        "name": "train",
        "image": "a:1",
        "env": [{"name": "A", "value": "a"}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


@cache
def _injected_text() -> bytes:
    policies = load_policies(POLICIES)
    reviewer = Reviewer(lambda: policies, Rules(), ReadyPlacer(), lambda *_: None)
    review = _fresh()
    answer = _at_once(reviewer.review(compact(review)))
    patch = json.loads(b64decode(json.loads(answer)["response"]["patch"]))
    review["request"]["object"] = jsonpatch.apply_patch(review["request"]["object"], patch)
    return compact(review)


def _at_once(review: Coroutine[Any, Any, bytes]) -> bytes:
    """Return the answer of a placer that never waits, also where an event loop runs."""
    try:
        review.send(None)
    except StopIteration as end:
        return bytes(end.value)
    raise AssertionError("the review waits")


def _injected() -> Review:
    """The same pod as it comes back from its first review."""
    review: Review = json.loads(_injected_text())
    return review


def _job() -> Review:
    review = _fresh()
    pod = review["request"]["object"]
    metadata, spec = pod["metadata"], pod["spec"]
    review["request"]["resource"] = {"group": "batch", "version": "v1", "resource": "jobs"}
    review["request"]["object"] = {"metadata": metadata, "spec": {"template": {"spec": spec}}}
    return review


def _growing(base: Callable[[], Review], path: str, member: Any) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        review = base()
        if isinstance(member, tuple):
            _reach(review["request"], path, dict)["HERE"] = 0
            here, text = b'"HERE":0', compact(dict([member]))[1:-1]
        else:
            _reach(review["request"], path, list).append("HERE")
            here, text = b'"HERE"', compact(member)
        body = compact(review)
        return body.replace(here, _many(text, size - len(body)))

    return make


def _many(text: bytes, size: int) -> bytes:
    """Copies of a member, each with its number in place of `#`."""
    parts = text.split(b"#")
    digits = len(str(size // len(text))) if len(parts) > 1 else 0
    count = max(1, size // (len(text) - len(parts) + 2 + digits * (len(parts) - 1)))
    if len(parts) == 1:
        return b",".join([text] * count)
    return b",".join([(b"%d" % number).join(parts) for number in range(count)])


def _stretching(base: Callable[[], Review], path: str) -> Callable[[int], bytes]:
    """One text; after the colon of a path stands what it consists of."""
    place, _, unit = path.partition(":")
    parent, _, key = place.rpartition(".")

    def make(size: int) -> bytes:
        review = base()
        text = unit or "x"
        times = max(0, size - len(compact(review))) // (len(compact(text)) - 2)
        _reach(review["request"], parent, dict)[key.replace("|", ".")] = text * times
        return compact(review)

    return make


def _reach(root: Any, path: str, kind: type) -> Any:
    """What stands at a path; made where it is missing. In a key, a bar stands for a dot."""
    steps = [int(step) if step.isdigit() else step.replace("|", ".") for step in path.split(".")]
    at = root
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        made = kind() if after is None else [] if isinstance(after, int) else {}
        if isinstance(step, int):
            if step >= len(at):
                at.append(made)
            at = at[step]
        else:
            if at.get(step) is None:
                at[step] = made
            at = at[step]
    return at


def _title(path: str, member: Member) -> str:
    text = json.dumps(dict([member]) if isinstance(member, tuple) else member)
    return f"{path} of {text if len(text) <= SHOWN else text[:SHOWN] + '...'}"


_ODD: Mapping[str, Callable[[int], bytes]] = {
    "white space": lambda size: b"[" + b" " * size + b"]",
    "empty lists": lambda size: b"[" + b"[]," * (size // 3) + b"0]",
    "a number of many digits": lambda size: b"1" * size,
    "a number out of range": lambda size: b"1e" + b"9" * size,
    "many numbers": lambda size: b"[" + b"1e9," * (size // 4) + b"0]",
    "an unknown member, many times": lambda size: b"0" + b',"more":0' * (size // 9),
    "the containers, many times": lambda size: b"0" + b',"containers":[{"name":"train"}]' * (size // 32),
    "escapes": lambda size: b'"' + b"\\u0061" * (size // 6) + b'"',
}


def _odd(base: Callable[[], Review], text: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        review = base()
        review["request"]["object"]["spec"]["more"] = "HERE"
        body = compact(review)
        return body.replace(b'"HERE"', text(size - len(body)))

    return make


def _forged(each: int, add: Callable[[Review, int], None]) -> Callable[[int], bytes]:
    """An injected pod to whose spec so much is added as makes the size; `each` is bytes of one addition."""

    def make(size: int) -> bytes:
        review = _injected()
        for number in range((size - len(compact(review))) // each):
            add(review["request"]["object"]["spec"], number)
        return compact(review)

    return make


def _ours(spec: Review) -> Review:
    ours: Review = next(each for each in spec["initContainers"] if each["name"] == "gpu-limiter")
    return ours


def _add_library(spec: Review, number: int) -> None:
    name = f"v{number}"
    mounts = [{"name": name, "mountPath": LIBRARY}]
    spec["volumes"].append({"name": name, "emptyDir": {"sizeLimit": "32Mi"}})
    spec["initContainers"].append({**_ours(spec), "name": f"i{number}", "volumeMounts": mounts})
    used = {"name": f"u{number}", **GPU, "volumeMounts": [{**mounts[0], "readOnly": True}]}
    spec["initContainers"].append(used)


def _add_written(spec: Review, number: int) -> None:
    name = f"v{number}"
    spec["volumes"].append({"name": name, "emptyDir": {"sizeLimit": "32Mi"}})
    _ours(spec)["volumeMounts"].append({"name": name, "mountPath": "/var/run/secrets/x"})
    mounts = [{"name": name, "mountPath": LIBRARY, "readOnly": True}]
    spec["initContainers"].append({"name": f"u{number}", **GPU, "volumeMounts": mounts})


def _add_ours(spec: Review, number: int) -> None:
    spec["initContainers"].append({**_ours(spec), "name": f"i{number}"})


def _add_variable(spec: Review, _number: int) -> None:
    _ours(spec)["env"].insert(0, {"name": ""})


def _add_token(spec: Review, _number: int) -> None:
    _ours(spec)["volumeMounts"].insert(0, {"name": "t", "mountPath": "/var/run/secrets/"})


def _long_name(size: int) -> bytes:
    """A container whose name is long, and whose cache volume's names are taken."""
    long = "x" * (size - 40_000)
    wanted = f"gpu-limiter-cache-{long}"
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:8]
    review = _fresh()
    spec = review["request"]["object"]["spec"]
    spec["containers"] = [{"name": long}]
    taken = [f"{wanted[: 53 - len(str(number))]}-{digest}-{number}" for number in range(2, 500)]
    spec["volumes"] = [{"name": f"{wanted[:54]}-{digest}"}, *({"name": name} for name in taken)]
    return compact(review)


def _long_preload(size: int) -> bytes:
    review = _fresh()
    review["request"]["object"]["spec"]["containers"][0]["env"].append(
        {"name": "LD_PRELOAD", "value": "x" * (size - 1000)}
    )
    return compact(review)


def _many_of_all(size: int) -> bytes:
    """An injected pod with almost as many parts of each kind as it may have."""
    review = _injected()
    metadata, spec = review["request"]["object"]["metadata"], review["request"]["object"]["spec"]
    metadata["annotations"].update({f"a{number}": "" for number in range(900)})
    spec["volumes"] += [
        {"name": f"v{number}", "hostPath": {"path": "/data/" + "a/../" * 30}} for number in range(450)
    ]
    spec["tolerations"] = [{"key": f"k{number}", "operator": "Exists"} for number in range(90)]
    _reach(spec, "affinity.nodeAffinity." + _TERMS, list)[:] = [_expressions(number) for number in range(90)]
    for number in range(180):
        spec["containers"].append(_crowded(number, each=13 if size >= SIZE else 2))
    return compact(review)


_TERMS = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def _expressions(term: int) -> Any:
    model = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920"]}
    values = [str(number) for number in range(10)]
    more = [{"key": f"k{term}-{at}", "operator": "In", "values": values} for at in range(9)]
    return {"matchExpressions": [model, *more]}


def _crowded(number: int, each: int) -> Any:
    names = [f"CUDA_MPS_{at}" if at % 2 else f"V{at}" for at in range(each)]
    mounts = [{"name": f"v{at}", "mountPath": f"/x/{'a/../' * 12}{at}"} for at in range(5)]
    amounts = {f"example.com/{number}-{at}": "1" for at in range(5)}
    limits = {"resources": {"limits": amounts}, "volumeMounts": mounts}
    return {"name": f"c{number}", "env": [{"name": name} for name in names], **limits}


_CAREFUL: Mapping[str, Callable[[int], bytes]] = {
    "init containers that fill many libraries": _forged(750, _add_library),
    "libraries that one container fills": _forged(250, _add_written),
    "our init container many times": _forged(600, _add_ours),
    "our init container with many variables": _forged(13, _add_variable),
    "our init container with many tokens": _forged(45, _add_token),
    "a long LD_PRELOAD": _long_preload,
    "a long name whose numbers are taken": _long_name,
    "many of all": _many_of_all,
}
