"""fraction-injector controller: the companion that keeps the ledger and places."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certs.rotation import RotationSettings
from cli.options import (
    ONE_GPU_RESOURCE,
    GpuResourceOption,
    fail,
    resource_names_of,
)
from cli.process_options import (
    LOOPBACK,
    HostOption,
    LogFormatOption,
    LogLevelOption,
    StopDelayOption,
    TlsNameOption,
)
from kube.names import DRA_DRIVER
from service.log import configure_logging
from service.serving import run

if TYPE_CHECKING:
    from controller.node_agents.coverage import AgentPods


def controller(  # noqa: PLR0913 each is an option of the command
    *,
    tls_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="tls.crt, tls.key and ca.crt of the API, read again when they change. Clients need a "
            "certificate of the same CA, good for a --client-name.",
        ),
    ],
    tls_name: TlsNameOption = None,
    client_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="localhost",
            help="Clients get answers if their certificate is good for one such name: those of the webhook.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default="the pod's service account", help="How to reach the API server."
        ),
    ] = None,
    host: HostOption = LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="mTLS port of the API; 0 takes a free one.")
    ] = 9443,
    health_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Plain port for /livez, /readyz and /metrics.")
    ] = 9080,
    page: Annotated[
        bool,
        typer.Option("--page", help="Show the ledger as a page, at http://localhost:PAGE-PORT/."),
    ] = False,
    page_host: Annotated[
        str,
        typer.Option(
            help="Address of the page. On others than loopback it is served over TLS, to bearer tokens that "
            "may list gpuledgers."
        ),
    ] = LOOPBACK,
    page_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = 9081,
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Policies of the webhook. Webhooks that start on a broken set get the last good one, and "
            "pods that wait on their index are deleted where replaceWaiting says so (needs the right to).",
        ),
    ] = None,
    policies_config_map: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="ConfigMap of --policies, in --namespace: Events on it tell what is wrong with them.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default="https://HOST:PORT",
            help="Where standbys send clients while this replica leads, such as https://10.0.0.7:9443.",
        ),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the Lease.")] = "gpu-fraction-injector",
    lease: Annotated[str, typer.Option(help="Name of the Lease.")] = "fraction-injector-controller",
    lease_duration: Annotated[
        float, typer.Option(min=0.5, help="Seconds without a renewal until another replica takes over.")
    ] = 7,
    renew_deadline: Annotated[
        float,
        typer.Option(min=0.3, help="Seconds without a renewal until a leader stops placing and writing."),
    ] = 5,
    lease_retry: Annotated[float, typer.Option(min=0.1, help="Seconds between a leader's renewals.")] = 1,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    issue_certificates: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Issue and rotate an installation's certificates: Secrets NAME-ca and NAME-tls, caBundle "
            "of the webhook configuration NAME, for the Services NAME-webhook and NAME-controller.",
        ),
    ] = None,
    inject_ca: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Others issue: only keep ca.crt of --tls-dir as caBundle of the webhook configuration NAME.",
        ),
    ] = None,
    webhook_endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            show_default="those of the Service",
            help="Webhook outside the cluster, whose certificate is watched during a rotation.",
        ),
    ] = None,
    ca_settle: Annotated[
        float, typer.Option(min=0, help="Seconds until every API server knows a new caBundle.")
    ] = 60,
    ca_keep: Annotated[
        float, typer.Option(min=0, help="Seconds to trust an old CA after its last leaf was seen.")
    ] = 86400,
    ca_retry: Annotated[
        float, typer.Option(min=0.1, help="Seconds between looks at Secrets, caBundle and webhooks.")
    ] = 10,
    watch_silence: Annotated[
        float, typer.Option(min=1, help="Seconds of silence after which a watch is begun anew.")
    ] = 100,
    mig_config_map: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            show_default=False,
            help="Divide the MIG cards of labelled nodes on demand, through this ConfigMap of NVIDIA's MIG "
            "manager (needs the right to patch nodes).",
        ),
    ] = None,
    mig_config_delay: Annotated[
        float,
        typer.Option(min=0, help="Seconds until a change of that ConfigMap has reached the MIG manager."),
    ] = 90,
    mig_pause: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds after a division for which a node's divided cards stay as they are."
        ),
    ] = 600,
    agent_pods: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            show_default=False,
            help="nodeSelector, affinity and tolerations of the agent's DaemonSet: the nodes that it covers "
            "take no new pods until their agent serves (needs the right to patch nodes).",
        ),
    ] = None,
    dra_driver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="DRA driver of GPUs: no pods are placed on GPUs that its ResourceSlices and a device plugin "
            "both offer. Empty to read none.",
        ),
    ] = DRA_DRIVER,
    stop_delay: StopDelayOption = 10,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "auto",
) -> None:
    """Keep the ledger of GPU slices, place pods for the webhook, and publish it as GpuLedgers.

    Run two replicas: one leads, the other stands by. Stops on SIGTERM or Ctrl-C.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from controller.certificates.store import Installation  # noqa: PLC0415
    from controller.geometry.loop import GeometryOptions  # noqa: PLC0415
    from controller.informer import Timing  # noqa: PLC0415
    from controller.kube_client import NoApiServerError  # noqa: PLC0415
    from controller.leadership import LeaseTiming  # noqa: PLC0415
    from controller.options import ControllerOptions  # noqa: PLC0415
    from controller.process import run_controller  # noqa: PLC0415

    if not lease_retry < renew_deadline < lease_duration:
        fail(
            f"--lease-retry {lease_retry}, --renew-deadline {renew_deadline} and --lease-duration "
            f"{lease_duration} must grow in this order: a leader stops before another may begin"
        )
    if issue_certificates is not None and inject_ca is not None:
        fail("--issue-certificates injects the CA that it issues: leave --inject-ca out")
    names = resource_names_of(gpu_resource)
    configure_logging(log_level, log_format)
    installation = issue_certificates or inject_ca
    options = ControllerOptions(
        kubeconfig=kubeconfig,
        host=host,
        port=port,
        health_port=health_port,
        tls_directory=tls_dir,
        tls_names=tuple(tls_name or ["localhost"]),
        client_names=tuple(client_name or ["localhost"]),
        advertise=_address(advertise) if advertise is not None else None,
        namespace=namespace,
        lease=lease,
        page=(page_host, page_port) if page else None,
        policies=policies,
        policies_config_map=policies_config_map,
        geometry=GeometryOptions(*_namespaced(mig_config_map), mig_config_delay, pause_seconds=mig_pause)
        if mig_config_map is not None
        else None,
        dra_driver=dra_driver or None,
        agents=_agents(agent_pods) if agent_pods is not None else None,
        stop_delay_seconds=stop_delay,
        lease_timing=LeaseTiming(lease_duration, renew_deadline, lease_retry),
        rotation=RotationSettings(
            settle=timedelta(seconds=ca_settle),
            keep_previous=timedelta(seconds=ca_keep),
            retry=timedelta(seconds=ca_retry),
        )
        if issue_certificates is not None
        else None,
        installation=Installation(namespace, installation, tuple(webhook_endpoint or ()))
        if installation is not None
        else None,
        names=names,
        watch_timing=Timing(silence_seconds=watch_silence),
    )
    try:
        run(run_controller(options))
    except (NoApiServerError, OSError) as error:
        fail(str(error))


def _address(url: str) -> str:
    """Put an IPv6 address into brackets: a pod's address comes without them."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    if not url.startswith("https://") or not host or not port.isdecimal():
        fail(f'--advertise "{url}" must be https://HOST:PORT')
    return (
        f"https://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"https://{host}:{port}"
    )


def _agents(text: str) -> AgentPods:
    """Return what the agent's pods demand of a node."""
    from controller.node_agents.coverage import read_agent_pods  # noqa: PLC0415 as above

    try:
        return read_agent_pods(text)
    except ValueError as error:
        fail(f"--agent-pods: {error}; give nodeSelector, affinity and tolerations as in a pod's spec")


def _namespaced(text: str) -> tuple[str, str]:
    """Return namespace and name."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        fail(f'--mig-config-map "{text}" is no NAMESPACE/NAME, such as gpu-operator/fraction-injector-mig')
    return namespace, name
