"""Reads a kubeconfig: where its API server is, and how its user authenticates.

The kubernetes package loads what was checked here: its own words name neither field nor value, and it goes on
without credentials if their command fails.
"""

from __future__ import annotations

import re
import shutil
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config_from_dict

from cluster.endpoint import Endpoint, NoApiServerError

MAX_ERROR = 300
"""Characters of an error of a kubeconfig that are repeated."""
_DATA = {key: f"{key}-data" for key in ("certificate-authority", "client-certificate", "client-key")}
_FILES = {**_DATA, "tokenFile": "token"}
"""Keys that name a file, each with the key that may hold its content instead."""
_URL = re.compile(r"https?://([^\s/]+@)?(\[[0-9A-Za-z:.%]+\]|[^\s/:@\[\]]+)(:[0-9]{1,5})?(/\S*)?")
_SHAPES = (TypeError, AttributeError, KeyError, ValueError)
"""What reading a file of another shape raises, here and in the package."""


class _MistakeError(Exception):
    """One sentence about a value of the file."""


async def of_kubeconfig(file: Path, context: str | None = None) -> Endpoint:
    """Return the API server of a kubeconfig's context; None means its current one.

    Raises:
        NoApiServerError: the file is missing or unusable, or its user cannot authenticate.
    """
    try:
        cluster, user = _chosen(_read(file), context)
        _check_urls(cluster)
        folder = file.parent.absolute()
        cluster, user = _with_files(cluster, folder), _with_command(_with_files(user, folder), folder)
        return await _endpoint(cluster, user)
    except _MistakeError as error:
        raise NoApiServerError(f"kubeconfig {file}: {' '.join(str(error).split())[:MAX_ERROR]}") from error
    except _SHAPES as error:
        why = f"kubeconfig {file} is damaged: compare it with one that kubectl wrote"
        raise NoApiServerError(why) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        if not file.is_file():
            raise NoApiServerError(f"there is no kubeconfig {file}: pass --kubeconfig FILE")
        return dict(yaml.safe_load(file.read_bytes()))
    except OSError as error:
        raise _MistakeError(f"{error.strerror}: make it readable") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "it"
        raise _MistakeError(f"{where} is not YAML: compare it with one that kubectl wrote") from error


def _chosen(config: Mapping[str, Any], context: str | None) -> list[dict[str, Any]]:
    """Return the cluster and the user of a context, without empty values."""
    name = context or config.get("current-context")
    if not name:
        raise _MistakeError("it has no current-context: run kubectl config use-context NAME")
    chosen = _named(config, "contexts", name)
    user = _named(config, "users", chosen["user"]) if chosen.get("user") else {}
    if user.get("as"):
        raise _MistakeError(
            f'"as" of user "{chosen["user"]}" is not supported: name a user with only these rights'
        )
    parts = (_named(config, "clusters", chosen["cluster"]), user)
    return [{key: value for key, value in part.items() if value} for part in parts]


def _named(config: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    entries = {each["name"]: each.get(kind[:-1]) or {} for each in config.get(kind) or ()}
    if name not in entries:
        names = ", ".join(map(str, entries)) or "none"
        raise _MistakeError(f'"{name}" is not one of its {kind}, which are: {names}')
    return dict(entries[name])


def _check_urls(cluster: Mapping[str, Any]) -> None:
    for key in {"server", *(cluster.keys() & {"proxy-url"})}:
        if not _URL.fullmatch(str(cluster.get(key, ""))):
            rule = "must be a URL with http or https, such as https://10.0.0.1:6443"
            # The URL of a proxy may have a password.
            shown = f' "{cluster.get(key, "")}"' if key == "server" else ""
            raise _MistakeError(f"{key}{shown} {rule}")


def _with_files(part: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a part with the absolute paths of its files, all of which can be read."""
    found = dict(part)
    for key, content in _FILES.items():
        if key in part and content not in part:
            found[key] = str(folder / part[key])
            try:
                (folder / part[key]).read_bytes()
            except OSError as error:
                raise _MistakeError(f"{key} {found[key]}: {error.strerror}: correct the path") from error
    return found


def _with_command(user: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a user with the path of its command for credentials, if it has one, which must exist."""
    wanted = dict(user.get("exec") or {})
    if not wanted:
        return dict(user)
    command = str(wanted["command"])
    wanted["command"] = str(folder / command) if "/" in command else command
    if shutil.which(wanted["command"]) is None:
        hint = wanted.get("installHint") or "install it, or correct the path"
        raise _MistakeError(f'the command "{command}" for credentials is not there: {hint}')
    return {**user, "exec": wanted}


async def _endpoint(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Endpoint:
    """Have the package load a cluster and a user."""
    chosen = {
        "current-context": "its",
        "contexts": [{"name": "its", "context": {"cluster": "its", "user": "its"}}],
        "clusters": [{"name": "its", "cluster": cluster}],
        "users": [{"name": "its", "user": user}],
    }
    configuration: Any = Configuration()
    load: Any = load_kube_config_from_dict  # without types in the package
    try:
        await load(chosen, client_configuration=configuration)
    except ConfigException as error:
        raise _MistakeError("its user has no valid token: log in again, as for kubectl") from error
    if "exec" in user and not (configuration.api_key or configuration.cert_file):
        # The package has logged why, and goes on without credentials.
        command = user["exec"]["command"]
        raise _MistakeError(f'the command "{command}" gave no credentials: run it to see why')
    url = configuration.host.rstrip("/")

    async def authorization() -> str | None:
        header: str | None = await configuration.get_api_key_with_prefix("BearerToken")
        return header.strip() if header else None  # a file of a token ends with a newline

    tls = _tls(configuration, cluster, user) if url.startswith("https:") else None
    return Endpoint(url, tls, authorization, configuration.tls_server_name or None, configuration.proxy)


def _tls(configuration: Any, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
        )
    except OSError as error:
        place = _place(cluster, "certificate-authority")
        raise _MistakeError(f"{place} holds no certificate in PEM form: copy it again") from error
    try:
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except OSError as error:
        places = f"{_place(user, 'client-certificate')} and {_place(user, 'client-key')}"
        raise _MistakeError(f"{places} are no certificate with its key in PEM form: log in again") from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _place(part: Mapping[str, Any], key: str) -> str:
    return _DATA[key] if _DATA[key] in part else f"{key} {part.get(key, '')}".strip()
