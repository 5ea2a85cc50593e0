"""A pod that has a form and nothing else: what the rules say of it holds for every pod of that form."""

from __future__ import annotations

from webhook.injection.form import ContainerForm, Form
from webhook.injection.stencil import MARK
from webhook.pod import (
    LABEL,
    Container,
    EnvEntry,
    ObjectMeta,
    Pod,
    PodSpec,
    Present,
    Resources,
    SecurityContext,
    Volume,
    VolumeMount,
)


def stand_in(form: Form) -> Pod:
    """Make the pod; marks are its names."""
    spec = PodSpec(
        containers=[_container(one, f"{MARK}{at}{MARK}") for at, one in enumerate(form.regular)],
        init_containers=[_container(one, f"{MARK}init-{at}{MARK}") for at, one in enumerate(form.init)],
        volumes=[Volume(MARK)] if form.has_volumes else None,
        host_pid=form.has_host_pid,
        tolerations=list(form.tolerations),
        runtime_class_name=MARK if form.has_runtime_class else None,
        resource_claims=[Present()] if form.has_resource_claims else None,
    )
    return Pod(ObjectMeta(MARK, {LABEL: form.label}, {} if form.has_annotations else None), spec)


def _container(form: ContainerForm, name: str) -> Container:
    return Container(
        name=name,
        image=form.image,
        env=[EnvEntry(MARK)] if form.has_env else None,
        resources=_resources(form),
        volume_mounts=[VolumeMount(MARK, f"/{MARK}")] if form.has_mounts else None,
        security_context=SecurityContext(form.is_privileged),
        restart_policy="Always" if form.is_native_sidecar else None,
    )


def _resources(form: ContainerForm) -> Resources | None:
    if form.resources is None:
        return None
    limits, requests = form.resources
    return Resources(None if limits is None else dict(limits), None if requests is None else dict(requests))
