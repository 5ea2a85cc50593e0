"""The webhook process: assembles policies, ledger, certificate and servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from certs.ca_file import write_ca_file
from certs.live_context import LiveTlsContext
from certs.mounted import POLL_SECONDS, MountedCertificate, MountRules
from ledger.ledger import Ledger
from policies.loading.reload import RELOAD_SECONDS, LivePolicies, Reload
from service.background import BackgroundTask, beat
from service.health import health_app
from service.http.serving import Listener
from service.http.sockets import bind
from service.metrics import PolicyMetrics
from service.options import LOOPBACK
from service.process import Process
from service.served_certificate import ServedCertificate
from web.source import About, LocalSource
from webhook.admission_request import Request
from webhook.app import WebhookApp
from webhook.decision import Outcome
from webhook.decision_log import DecisionLog
from webhook.denial_reports import DenialReports
from webhook.metrics import WebhookMetrics
from webhook.options import WebhookOptions
from webhook.page import AdmittedPods, RecentDenials
from webhook.placing.client import ControllerClient
from webhook.placing.controller import ControllerPlacer
from webhook.placing.controller_wait import ControllerWait
from webhook.placing.last_good_policies import LastGoodPolicies
from webhook.placing.placer import LedgerPlacer, Placer
from webhook.review import Observer, Reviewer
from webhook.rules import Rules

if TYPE_CHECKING:
    from web.page import Page

TASKS = (
    "policies",
    "mounted certificate",
    "placement batches",
    "controller snapshot",
    "denial reports",
)
"""Background tasks, which are restarted when they fail."""


class WebhookProcess:
    """One webhook, from start to drain."""

    def __init__(self, options: WebhookOptions, ledger: Ledger | None) -> None:
        """Prepare everything that can fail; `ledger` places pods if there is no controller.

        Raises:
            ValueError: the controller's URL is invalid, or there is no client certificate for it.
            policies.PolicyError: the policy directory is invalid, and the ledger is in this process.
            OSError: a file cannot be written, or an address is not available.
        """
        self._options = options
        self._process = Process("webhook", TASKS, options.stop_delay)
        self._registry, self._log = self._process.registry, self._process.log
        self._metrics = WebhookMetrics(self._registry)
        self._certificate = ServedCertificate(self._registry, str(options.tls_directory or "self-signed"))
        self._metrics.reload_successful.set(1)
        # With a controller it runs in a cluster, where a failing start is hard to diagnose in a restart loop.
        self._policies = LivePolicies(options.policies, self._reloaded, may_wait=ledger is None)
        policies = self._policies
        self._registry.register(PolicyMetrics(lambda: policies.last.digest, lambda: policies.since))
        self._mounted: MountedCertificate | None = None
        context = self._served()
        self._background: Mapping[str, Callable[[], Awaitable[None]]] = {}
        self._controller_wait: ControllerWait | None = None
        self._controller_placer: ControllerPlacer | None = None
        self._last_good: LastGoodPolicies | None = None
        self._observers: list[Observer] = [DecisionLog(self._metrics)]
        self._page = self._make_page(ledger) if ledger and options.page_port is not None else None
        placer, rules = self._placer(ledger)
        reviewer = Reviewer(lambda: self._policies.current, rules, placer, self._observe)
        router = self._process.router(self._detail)
        app = WebhookApp(reviewer, self._metrics)
        app.include_router(router)
        bound = bind(options.host, options.port)
        self._listeners = [Listener(app, bound, context.listener)]
        if options.health_port is not None:
            bound = bind(options.host, options.health_port)
            self._listeners.append(Listener(health_app(router), bound, role="health"))
        if self._page is not None and options.page_port is not None:
            self._listeners.append(Listener(self._page, bind(LOOPBACK, options.page_port), role="page"))
        self._process.ready_when(**self._conditions())

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        stop = self._page.stop if self._page is not None else lambda: None
        await self._process.serve(self._listeners, self._tasks(), on_stopping=stop)

    def _make_page(self, ledger: Ledger) -> Page:
        from web.page import Page  # noqa: PLC0415 4 MB of templates that most webhooks never use

        denials, admitted = RecentDenials(), AdmittedPods()
        self._observers += [denials, admitted]
        facts = About(
            role=lambda: "standalone webhook",
            quotas=lambda: self._policies.current.quotas(),  # noqa: PLW0108 - `current` changes
            denials=denials.of_last_hour,
            admitted=admitted.of,
        )
        return Page(LocalSource(ledger), facts)

    def _observe(self, request: Request, outcome: Outcome, seconds: float) -> None:
        for observe in self._observers:
            observe(request, outcome, seconds)

    def _tasks(self) -> list[BackgroundTask]:
        tasks = [BackgroundTask("policies", self._watch_policies, RELOAD_SECONDS)]
        if self._mounted is not None:
            follow = partial(self._mounted.follow, beat)
            tasks.append(BackgroundTask("mounted certificate", follow, POLL_SECONDS))
        return [*tasks, *(BackgroundTask(name, run) for name, run in self._background.items())]

    async def _watch_policies(self) -> None:
        await self._policies.watch(self._last_good.fetch if self._last_good is not None else None, beat)

    def _served(self) -> LiveTlsContext:
        """Return the listener's context: of the mounted certificate, or of one for this machine."""
        options = self._options
        if options.tls_directory is None:
            return _self_signed_context(options.ca_file, self._certificate, options.client_ca_pem)
        self._mounted = MountedCertificate(
            options.tls_directory,
            MountRules(options.tls_names, require_injected=options.require_injected_ca),
            self._certificate.served,
            self._certificate.refused,
            client_ca_pem=options.client_ca_pem,
        )
        return self._mounted.context

    def _placer(self, ledger: Ledger | None) -> tuple[Placer, Rules]:
        """Return the placer, and the rules with what it knows of the GPUs."""
        if ledger is not None:
            return LedgerPlacer(ledger), Rules(ledger.may_have, ledger.mig_cards)
        certificate = self._mounted
        if self._options.controller is None or certificate is None:
            raise ValueError("the controller requires a mounted certificate: pass --tls-dir too")
        url = self._options.controller
        client = ControllerClient(url, lambda: certificate.client)
        placer = self._controller_placer = ControllerPlacer(client, self._registry)
        self._last_good = LastGoodPolicies(client, self._policies)
        denials = DenialReports(ControllerClient(url, lambda: certificate.client))
        self._observers.append(denials)
        self._background = {**placer.background(), "denial reports": denials.run}
        self._controller_wait = ControllerWait(
            lambda: placer.fallback.is_known, self._options.controller_wait
        )
        return placer, Rules(placer.fallback.may_have, placer.fallback.mig_cards)

    def _conditions(self) -> dict[str, Callable[[], str | None]]:
        certificate: Callable[[], str | None] = self._certificate_missing
        conditions = {"certificate": certificate, "policies": lambda: self._policies.missing}
        if (wait := self._controller_wait) is not None:
            # Without a certificate the controller cannot be reached, so the wait starts when there is one.
            waits = "waits for the certificate"
            conditions["controller"] = lambda: waits if certificate() is not None else wait.missing()
        return conditions

    def _certificate_missing(self) -> str | None:
        return self._mounted.missing if self._mounted is not None else None

    def _detail(self) -> str:
        last = self._policies.last
        if last.digest is None:
            text = "policies: none in force; every labelled pod is denied until the directory is fixed"
            failure = self._last_good.failure if self._last_good is not None else None
            return f"{text}; no last good set from the controller: {failure}" if failure else text
        state = "in force" if last.error is None else f"the last good set; the directory holds: {last.error}"
        if last.adopted:
            state = f"the last good set, from the controller; the directory holds: {last.error}"
        placing = f"; {self._controller_placer.state}" if self._controller_placer is not None else ""
        return f"policies {last.digest}: {state}{placing}"

    def _reloaded(self, reload: Reload) -> None:
        self._metrics.reload_successful.set(reload.error is None)
        self._metrics.policies_adopted.set(reload.adopted)
        if reload.error is None:
            self._log.info("policies are in force", digest=reload.digest)
        elif reload.adopted:
            text = "policies are broken: the controller's last good set is in force"
            self._log.error(text, kept=reload.digest, error=str(reload.error))
        else:
            self._log.error("policies are broken", kept=reload.digest, error=str(reload.error))


def _self_signed_context(
    ca_file: Path, certificate: ServedCertificate, client_ca_pem: bytes | None
) -> LiveTlsContext:
    """Create a CA and a leaf for this machine at every start; only the CA's certificate is written.

    With `client_ca_pem`, only clients with a certificate of these CAs are accepted.

    Raises:
        CertificateError: the client CAs cannot be read.
        OSError: the file cannot be written.
    """
    from certs.self_signed import self_signed  # noqa: PLC0415 11 MB that mounted certificates do not need

    made = self_signed(datetime.now(UTC))
    write_ca_file(ca_file, made.ca_pem)
    context = LiveTlsContext(verify_clients=client_ca_pem is not None)
    context.swap(made.pair, client_ca_pem)
    certificate.show(made)
    return context
