"""A kubeconfig: its server, the credentials of its user, and one line of advice if it cannot be used."""

import asyncio
import json
import ssl

import pytest
import trustme

from cli.options import kubeconfig_of
from cluster.endpoint import NoApiServerError
from cluster.kubeconfig import of_kubeconfig

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: one, user: me}}]
clusters: [{name: one, cluster: {server: "https://127.0.0.1:6443/", tls-server-name: api.example}}]
users: [{name: me, user: {token: secret}}]
"""
NO_PAIR = "are no certificate with its key in PEM form: log in again"
COMMAND = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, %s]}"


def with_user(text):
    return KUBECONFIG.replace("token: secret", text)


def with_server(text):
    return KUBECONFIG.replace('"https://127.0.0.1:6443/"', text)


def test_a_kubeconfig_gives_the_server_its_name_and_the_token(tmp_path):
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    found = asyncio.run(of_kubeconfig(file))
    assert (found.url, found.tls_name) == ("https://127.0.0.1:6443", "api.example")
    assert asyncio.run(found.authorization()) == "Bearer secret"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", " is damaged: compare it with one that kubectl wrote"),
        ("text", " is damaged: compare it with one that kubectl wrote"),
        ("contexts: [5]\ncurrent-context: here", " is damaged: compare it with one that kubectl wrote"),
        ("a: 5\nb: {", ": line 2 is not YAML: compare it with one that kubectl wrote"),
        ("a: 5", ": it has no current-context: run kubectl config use-context NAME"),
        (
            KUBECONFIG.replace("cluster: one", "cluster: two"),
            ': "two" is not one of its clusters, which are: one',
        ),
        (KUBECONFIG.replace("user: me", "user: you"), ': "you" is not one of its users, which are: me'),
        (with_server("[]"), ': server "" must be a URL with http or https, such as https://10.0.0.1:6443'),
        (
            with_server("127.0.0.1:1"),
            ': server "127.0.0.1:1" must be a URL with http or https, such as https://10.0.0.1:6443',
        ),
        (
            with_server("https://a, proxy-url: socks5://b"),
            ": proxy-url must be a URL with http or https, such as https://10.0.0.1:6443",
        ),
        (
            with_server("https://a, certificate-authority: missing"),
            ": certificate-authority FOLDER/missing: No such file or directory: correct the path",
        ),
        (
            with_server("https://a, certificate-authority: config"),
            ": certificate-authority FOLDER/config holds no certificate in PEM form: copy it again",
        ),
        (
            with_user("client-certificate-data: '!', client-key: config"),
            f": client-certificate-data and client-key FOLDER/config {NO_PAIR}",
        ),
        (
            with_user("tokenFile: missing"),
            ": tokenFile FOLDER/missing: No such file or directory: correct the path",
        ),
        (
            with_user("auth-provider: {name: oidc, config: {a: b}}"),
            ": its user has no valid token: log in again, as for kubectl",
        ),
        (
            with_user("token: a, as: jane"),
            ': "as" of user "me" is not supported: name a user with only these rights',
        ),
        (
            with_user("exec: {command: none, installHint: install it}"),
            ': the command "none" for credentials is not there: install it',
        ),
        (
            with_user(COMMAND % "'exit 3'"),
            ': the command "sh" gave no credentials: run it to see why',
        ),
    ],
)
def test_a_broken_kubeconfig_is_one_line_with_the_field_and_what_to_do(tmp_path, text, says):
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(NoApiServerError) as told:
        asyncio.run(of_kubeconfig(file))
    assert str(told.value) == f"kubeconfig {file}{says.replace('FOLDER', str(tmp_path))}"


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ("tokenFile: token", "kept"),
        ("token: '', tokenFile: token", "kept"),
        ("token: own, tokenFile: missing", "own"),
    ],
)
def test_a_file_beside_it_gives_the_token_without_its_newline(tmp_path, user, token):
    (tmp_path / "config").write_text(with_user(user))
    (tmp_path / "token").write_text("kept\n")
    found = asyncio.run(of_kubeconfig(tmp_path / "config"))
    assert asyncio.run(found.authorization()) == f"Bearer {token}"


def test_a_context_that_is_named_may_have_no_user(tmp_path):
    bare = "contexts: [{name: bare, context: {cluster: one}}, "
    (tmp_path / "config").write_text(KUBECONFIG.replace("contexts: [", bare))
    found = asyncio.run(of_kubeconfig(tmp_path / "config", "bare"))
    assert asyncio.run(found.authorization()) is None


@pytest.mark.parametrize(("skips", "mode"), [("false", ssl.CERT_REQUIRED), ("true", ssl.CERT_NONE)])
def test_the_servers_certificate_is_verified_unless_the_file_says_otherwise(tmp_path, skips, mode):
    (tmp_path / "config").write_text(with_server(f"https://a, insecure-skip-tls-verify: {skips}"))
    tls = asyncio.run(of_kubeconfig(tmp_path / "config")).tls
    assert (tls.verify_mode, tls.check_hostname) == (mode, mode is ssl.CERT_REQUIRED)


def of_command(folder, status):
    """Read a kubeconfig whose user has a command beside it, which prints a status."""
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    (folder / "answer.json").write_text(json.dumps(kind | {"status": status}))
    (folder / "command").write_text(f"#!/bin/sh\ncat {folder}/answer.json\n")
    (folder / "command").chmod(0o700)
    (folder / "config").write_text(
        with_user(f"exec: {{apiVersion: {kind['apiVersion']}, command: ./command}}")
    )
    return asyncio.run(of_kubeconfig(folder / "config"))


def test_a_command_beside_it_gives_the_token_or_a_certificate(tmp_path):
    assert asyncio.run(of_command(tmp_path, {"token": "printed"}).authorization()) == "Bearer printed"
    own = trustme.CA().issue_cert("me")
    names = ("clientCertificateData", "clientKeyData")
    pair = (own.cert_chain_pems[0], own.private_key_pem)
    of_pair = of_command(
        tmp_path, {name: each.bytes().decode() for name, each in zip(names, pair, strict=True)}
    )
    assert asyncio.run(of_pair.authorization()) is None


def test_the_password_of_a_proxy_may_have_the_sign_that_ends_it(tmp_path):
    proxy = "http://user:p@ss@proxy:3128"
    (tmp_path / "config").write_text(with_server(f'https://a, proxy-url: "{proxy}"'))
    assert asyncio.run(of_kubeconfig(tmp_path / "config")).proxy == proxy


def test_a_kubeconfig_that_may_not_be_looked_at_is_named_with_why(tmp_path, monkeypatch):
    file = tmp_path / ("x" * 300)
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert kubeconfig_of(None) == file
    with pytest.raises(NoApiServerError, match=f"kubeconfig {file}: File name too long: make it readable"):
        asyncio.run(of_kubeconfig(file))


def test_a_missing_kubeconfig_is_named(tmp_path):
    with pytest.raises(NoApiServerError, match=r"there is no kubeconfig .*/missing"):
        asyncio.run(of_kubeconfig(tmp_path / "missing"))
