"""Logs errors of what is tried again and again: each once, not at every attempt."""

from __future__ import annotations

from collections.abc import Callable


class RecurringError:
    """A context in which each attempt runs; such errors of it are logged and end there.

    Args:
        log: a level of a logger, such as `log.warning`.
        event: what the errors mean.
        kinds: the errors.
    """

    def __init__(self, log: Callable[..., None], event: str, *kinds: type[Exception]) -> None:
        self._log = log
        self._event = event
        self._kinds = kinds
        self.text: str | None = None
        """The error of the last attempt; None after a good one."""

    def __enter__(self) -> None:
        """Begin an attempt."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Log why the attempt failed, if the one before did not fail for the same reason."""
        if error is not None and not isinstance(error, self._kinds):
            return False
        before, self.text = self.text, str(error) if error is not None else None
        if self.text not in {None, before}:
            self._log(self._event, error=self.text)
        return True
