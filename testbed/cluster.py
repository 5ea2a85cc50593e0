"""A whole control plane as one context manager: etcd, API server, scheduler, controllers and KWOK."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from testbed import components
from testbed.api import Api
from testbed.command import WITHOUT_GARBAGE_COLLECTION, Output, output_of
from testbed.components import ADMIN_TOKEN, Home
from testbed.process import Process, eventually


class Cluster:
    """A control plane that runs while the context is open, on free ports of the loopback device.

    Args:
        binaries: Folder that `binaries.build` returned.
        folder: Empty folder for keys, data, logs and the kubeconfig; the caller removes it.

    Attributes:
        api: Client with the administrator's rights.
        kubeconfig: File for kubectl and other clients.
        processes: Everything started, in the order of starting.
    """

    api: Api
    etcd_url: str
    url: str

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.home = Home(binaries, folder)
        self.kubeconfig = folder / "kubeconfig"
        self.processes: list[Process] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start everything and wait until pods can be created.

        Raises:
            ProcessError: A part did not get ready; its log is in the text.
        """
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        components.make_keys(self.home)
        etcd, self.etcd_url = components.start_etcd(self.home)
        self._keep(stack, etcd)
        apiserver, self.url = components.start_apiserver(self.home, self.etcd_url)
        self._keep(stack, apiserver)
        components.write_kubeconfig(self.home, self.url, self.kubeconfig)
        self.api = stack.enter_context(Api(self.url, str(self.home.ca_file), ADMIN_TOKEN))
        for start in (components.start_controller_manager, components.start_scheduler, components.start_kwok):
            self._keep(stack, start(self.home, self.kubeconfig))
        eventually(lambda: self.takes_pods("default"), "the default namespace has its service account")

    def _keep(self, stack: ExitStack, process: Process) -> None:
        self.processes.append(stack.enter_context(process))

    def __exit__(self, *_: object) -> None:
        """Stop everything, the last started first."""
        self._stack.close()

    def takes_pods(self, namespace: str) -> bool:
        """Whether a namespace has the service account without which no pod may be created."""
        return self.api.exists("ServiceAccount", "default", namespace)

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace and wait until it takes pods."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        eventually(lambda: self.takes_pods(name), f"namespace {name} has its service account")

    def kubectl(self, *arguments: str, stdin: str = "") -> Output:
        """Run kubectl as the administrator."""
        command = [str(self.home.binaries / "kubectl"), f"--cache-dir={self.home.folder / 'kubectl'}"]
        # `kubectl diff` runs the machine's own diff.
        home = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home.folder), "PATH": os.defpath}
        environment = {**home, **WITHOUT_GARBAGE_COLLECTION}
        return output_of([*command, *arguments], environment, stdin=stdin)

    def logs(self) -> list[Path]:
        """The log files of everything that ran."""
        return sorted(self.home.folder.glob("*.log"))
