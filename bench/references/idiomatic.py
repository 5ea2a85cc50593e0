"""A: the webhook as tutorials write it: pydantic models, a deep copy to change, its difference as the patch.

It gives a ClearML or bare pod what ours gives, for one fixed placement, and checks next to nothing.
"""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

LABEL = "clearml-injector/fraction"
SLICES = {"0.125": 1, "0.250": 2, "0.375": 3, "0.500": 4, "0.625": 5, "0.750": 6, "0.875": 7}
GPU_MIB = 81920
INDEX = 0


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)


class EnvVar(_Model):
    """A variable."""

    name: str
    value: str | None = None
    value_from: dict[str, Any] | None = None


class Resources(_Model):
    """Limits and requests."""

    limits: dict[str, str | int] = Field(default_factory=dict)
    requests: dict[str, str | int] = Field(default_factory=dict)


class VolumeMount(_Model):
    """Where a volume is seen."""

    name: str
    mount_path: str
    read_only: bool | None = None


class Container(_Model):
    """A container."""

    name: str
    image: str | None = None
    env: list[EnvVar] = Field(default_factory=list)
    resources: Resources = Field(default_factory=Resources)
    volume_mounts: list[VolumeMount] = Field(default_factory=list)
    security_context: dict[str, Any] | None = None


class Volume(_Model):
    """A volume."""

    name: str


class PodSpec(_Model):
    """The spec."""

    containers: list[Container]
    init_containers: list[Container] = Field(default_factory=list)
    volumes: list[Volume] = Field(default_factory=list)
    affinity: dict[str, Any] | None = None
    tolerations: list[dict[str, Any]] = Field(default_factory=list)


class ObjectMeta(_Model):
    """The metadata."""

    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Pod(_Model):
    """The pod."""

    metadata: ObjectMeta
    spec: PodSpec


class Request(_Model):
    """The question."""

    uid: str
    operation: str
    namespace: str | None = None
    object: Pod


class AdmissionReview(_Model):
    """The envelope."""

    api_version: str
    kind: str
    request: Request


class Response(_Model):
    """The answer."""

    uid: str
    allowed: bool
    patch_type: str | None = None
    patch: str | None = None


class Answer(_Model):
    """The answer's envelope."""

    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"
    response: Response


def decide(review: AdmissionReview) -> Answer:
    """Change a copy, and let the difference be the patch."""
    request = review.request
    text = request.object.metadata.labels.get(LABEL)
    if text is None:
        return Answer(response=Response(uid=request.uid, allowed=True))
    if text not in SLICES:
        return Answer(response=Response(uid=request.uid, allowed=False))
    before = request.object.model_dump(by_alias=True, exclude_none=True)
    after = copy.deepcopy(before)
    _inject(after, SLICES[text])
    patch = jsonpatch.make_patch(before, after).patch
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return Answer(response=Response(uid=request.uid, allowed=True, patch_type="JSONPatch", patch=encoded))


def review_bytes(body: bytes) -> bytes:
    """The same without a server, from bytes to bytes."""
    return decide(AdmissionReview.model_validate_json(body)).model_dump_json(by_alias=True).encode()


app = FastAPI(docs_url=None, redoc_url=None)


@app.post("/mutate")
async def mutate(review: AdmissionReview) -> Answer:
    """Answer one review."""
    return decide(review)


def _inject(pod: dict[str, Any], slices: int) -> None:
    spec, metadata = pod["spec"], pod["metadata"]
    container = spec["containers"][0]
    mib = GPU_MIB * slices // 8
    metadata["annotations"] |= {
        "clearml-injector/injected": "default@reference",
        "clearml-injector/slices": str(slices),
        "clearml-injector/gpu-index": str(INDEX),
        "clearml-injector/gpu-container": container["name"],
        "clearml-injector/memory-mib": str(mib),
    }
    for amounts in container["resources"].values():
        for name in [name for name in amounts if name.startswith(("nvidia.com/", "clear.ml/"))]:
            del amounts[name]
        amounts[f"nvidia.com/gpu-{INDEX}"] = str(slices)
    container["env"] += [
        {
            "name": "CUDA_DEVICE_MEMORY_SHARED_CACHE",
            "value": f"/usr/local/vgpu-cache/{container['name']}.cache",
        },
        {"name": "LIBCUDA_LOG_LEVEL", "value": "1"},
        {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": f"{mib}m"},
        {"name": "LD_PRELOAD", "value": "/usr/local/vgpu/libvgpu.so"},
    ]
    for other in spec["containers"][1:]:
        other["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
    _add_limiter(spec, container)
    required = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": [str(GPU_MIB)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [required]}]}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _add_limiter(spec: dict[str, Any], container: dict[str, Any]) -> None:
    cache = f"gpu-limiter-cache-{container['name']}"
    container["volumeMounts"] += [
        {"name": "gpu-limiter-library", "mountPath": "/usr/local/vgpu", "readOnly": True},
        {"name": cache, "mountPath": "/usr/local/vgpu-cache"},
    ]
    spec["volumes"] += [
        {"name": "gpu-limiter-library", "emptyDir": {"sizeLimit": "32Mi"}},
        {"name": cache, "emptyDir": {"sizeLimit": "8Mi"}},
    ]
    copying = {
        "name": "gpu-limiter",
        "image": "docker.io/projecthami/hamicore:v2.10.0",
        "command": ["sh", "-c", "cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "volumeMounts": [{"name": "gpu-limiter-library", "mountPath": "/usr/local/vgpu"}],
        "securityContext": {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 65534},
    }
    spec["initContainers"] = [copying, *spec["initContainers"]]
