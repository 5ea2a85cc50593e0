"""Looks that are a hundredth as far apart."""

import pytest

from agent.dra import serving


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("agent.health.CHECK_SECONDS", 0.05)
    monkeypatch.setattr("agent.preparation.POLL_SECONDS", 0.05)
    monkeypatch.setattr(serving, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(serving, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(serving, "MOST_SECONDS", 0.2)
