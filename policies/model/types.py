"""Types of single fields in policy files: valid names, paths, sizes and so on."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from kube.device_keys import reserved
from kube.names import NVIDIA_DOMAIN
from modes.gpu_names import OTHER_SYSTEM_PREFIXES, WHOLE_GPU_NAMES, is_one_gpu
from modes.memory_text import EXAMPLES, memory_mib
from policies.model import placeholders
from policies.model.allowances import claim_name
from policies.model.problems import quoted

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME = {"pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", "type": "string"}
_SIZE = {"pattern": "^[1-9][0-9]{0,8}(Ki|Mi|Gi)$", "type": "string"}
_GPU_CLASS_WORDS = frozenset({"gpu", "mig"})
"""Words in the names of drivers' own classes of GPUs, such as gpu.nvidia.com and mig.nvidia.com."""
_MEMORY_LIMIT = {"CUDA_DEVICE_MEMORY_LIMIT": "{memory_mib}m", "NVIDIA_GPU_MEMORY_": "{memory_mib}"}
_NO_REQUEST = ("NVIDIA_GPU_MEMORY_REQUEST", "0")
"""Requests nothing. The kernel would keep a request after its container has ended."""


class Part(BaseModel):
    """Base of all parts of a policy file: unknown keys and implicit conversions are errors."""

    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


def _dns_label(text: str) -> str:
    if len(text) > 63 or not re.fullmatch(_LABEL, text):  # noqa: PLR2004  Kubernetes' own limit of a label
        raise ValueError("must be a DNS label: at most 63 lowercase letters, digits and -")
    return text


def _dns_name(text: str) -> str:
    if not re.fullmatch(_DNS_NAME["pattern"], text):
        raise ValueError("must be a DNS name: at most 253 lowercase letters, digits, - and .")
    return text


def _size(text: str) -> str:
    if not re.fullmatch(_SIZE["pattern"], text):
        raise ValueError("must be a whole number of Ki, Mi or Gi such as 8Mi")
    return text


def _device_class(text: str) -> str:
    if not re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text):
        raise ValueError("must be the name of a DeviceClass such as rdma.example.com")
    if not _GPU_CLASS_WORDS.isdisjoint(text.split(".")):
        raise ValueError("is a class of GPUs, which cannot be allowed with the label: remove it")
    if len(claim_name(text)) > 63:  # noqa: PLR2004  Kubernetes' own limit of a claim's name
        raise ValueError(f"is too long for the name of a pod's claim: {claim_name(text)}")
    return text


def _absolute_path(text: str) -> str:
    if not text.startswith("/") or posixpath.normpath(text) != text or text == "/" or ":" in text:
        raise ValueError("must be an absolute, normalised path such as /usr/local/vgpu")
    return text


def _memory(text: str) -> str:
    if memory_mib(text) is None:
        raise ValueError(f"must be a whole number of Mi or Gi such as {EXAMPLES}")
    return text


def _period(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,3}[mh]", text, re.ASCII):
        raise ValueError("must be whole minutes or hours such as 30m or 4h")
    return text


def _harmless_resource(name: str) -> str:
    if not name.startswith(NVIDIA_DOMAIN):
        raise ValueError(f"is never denied: only names in {NVIDIA_DOMAIN} need to be listed: remove it")
    if name in WHOLE_GPU_NAMES or name.startswith(OTHER_SYSTEM_PREFIXES) or is_one_gpu(name):
        raise ValueError("requests GPUs, so it cannot be allowed with the label: remove it")
    return name


def _env_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("must be a name of letters, digits and _")
    return text


def _pinned_image(text: str) -> str:
    name, at, digest = text.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._:/-]*", name):
        raise ValueError("must be an image reference such as projecthami/hamicore:v2.10.0")
    if at and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError("must end in a tag, or in a digest: @sha256: and 64 hexadecimal digits")
    if not digest and tag in {"", "latest"}:
        pinned = f"{name.removesuffix(':latest')}:v1.2.3"
        raise ValueError(f"must be pinned to a tag other than latest, such as {quoted(pinned)}")
    return text


def _not_secretly_a_limit(env: dict[str, str]) -> dict[str, str]:
    if taken := sorted(reserved(env) | (env.keys() & {"LD_PRELOAD"})):
        raise ValueError(f"{taken[0]} belongs to the limiter: set it in a file of kind Limiter")
    return env


def _in_safe_grammar(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        for prefix, form in _MEMORY_LIMIT.items():
            if name.startswith(prefix) and value != form and (name, value) != _NO_REQUEST:
                raise ValueError(
                    f'{name} must be "{form}": other forms mean other amounts, or no limit at all'
                )
    if "LD_PRELOAD" in env:
        raise ValueError("LD_PRELOAD is joined with the pod's own: use ldPreload")
    return env


def _one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(f"must have one group, the GB that the image limits to; it has {groups}")
    return pattern


DeviceClassName = Annotated[str, AfterValidator(_device_class)]
DnsLabel = Annotated[str, AfterValidator(_dns_label)]
DnsName = Annotated[str, AfterValidator(_dns_name), WithJsonSchema(_DNS_NAME)]
AbsolutePath = Annotated[str, AfterValidator(_absolute_path)]
PinnedImage = Annotated[str, AfterValidator(_pinned_image)]
ImagePattern = Annotated[str, StringConstraints(max_length=500), AfterValidator(_one_group)]
Size = Annotated[str, AfterValidator(_size), WithJsonSchema(_SIZE)]
MemoryText = Annotated[str, AfterValidator(_memory)]
Period = Annotated[str, AfterValidator(_period)]
EnvName = Annotated[str, AfterValidator(_env_name)]
EnvValue = Annotated[str, StringConstraints(max_length=4096), AfterValidator(placeholders.check)]
PolicyEnv = Annotated[dict[EnvName, EnvValue], AfterValidator(_not_secretly_a_limit)]
LimiterEnv = Annotated[dict[EnvName, EnvValue], AfterValidator(_in_safe_grammar)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Limit = Annotated[int, Field(ge=0, le=1_000_000)]
MibLimit = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
Mib = Annotated[int, Field(ge=1, le=100_000_000)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=253)]
HarmlessResource = Annotated[Text, AfterValidator(_harmless_resource)]
SlicesPerGpu = Literal[2, 4, 8, 16]
Json = dict[str, Any]
