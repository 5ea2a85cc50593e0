"""What the kubelet does with a mounted Secret: a new folder and one rename whenever it changes."""

import base64
import threading
from pathlib import Path
from typing import Self

from testbed.api import Api
from testbed.certificate_files import mount_like_kubelet

POLL_S = 0.2


class SecretMounts:
    """Keeps directories at the content of a Secret while the context is open."""

    def __init__(self, api: Api, secret: str, namespace: str, *directories: Path) -> None:
        self._api = api
        self._secret = secret
        self._namespace = namespace
        self._directories = directories
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._generation = 0
        self._content: dict[str, bytes] | None = None

    def __enter__(self) -> Self:
        """Mount what is there, and follow it."""
        self._refresh()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop following."""
        self._done.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._done.wait(POLL_S):
            self._refresh()

    def _refresh(self) -> None:
        data = self._api.get("Secret", self._secret, self._namespace).get("data") or {}
        content = {name: base64.b64decode(value) for name, value in data.items()}
        if content == self._content:
            return
        self._content = content
        self._generation += 1
        for directory in self._directories:
            mount_like_kubelet(directory, str(self._generation), content)
