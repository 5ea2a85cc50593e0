"""fraction-injector certs status: where it looks, and what it says of what is not there."""

import asyncio
import json
from pathlib import Path

import pytest
import typer

from cli.commands import certs
from cli.options import kubeconfig_of


class NothingThere:
    """An API server that has no object at all."""

    async def request(self, _method, path, **_):
        from controller.kube_client import ApiError  # noqa: PLC0415 as the command itself does

        raise ApiError(404, f"{path} not found", None)

    async def close(self):
        pass


def test_a_namespace_without_the_secrets_is_named(monkeypatch, capsys):
    async def connect(*_):
        return NothingThere()

    monkeypatch.setattr("controller.kube_client.connect", connect)
    with pytest.raises(typer.Exit) as ended:
        asyncio.run(certs._look(None, "typo", "fraction-injector", ()))
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == (
        "fraction-injector: namespace typo has no Secrets fraction-injector-ca and fraction-injector-tls:"
        " name the installation and --namespace\n"
    )


def test_in_a_pod_the_service_account_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    usual = tmp_path / ".kube" / "config"
    assert kubeconfig_of(None) == usual
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert kubeconfig_of(None) is None
    assert kubeconfig_of(Path("given")) == Path("given")
    usual.parent.mkdir()
    usual.write_text(json.dumps({}))
    assert kubeconfig_of(None) == usual
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}/.kube/config")
    assert kubeconfig_of(None) == usual
