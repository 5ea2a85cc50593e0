"""Names of Services for pods, in place of a cluster's DNS: `python dns.py ADDRESS KUBECONFIG`.

Answers `SERVICE.NAMESPACE.svc.cluster.local` with the address that the API server has for it at that moment.
"""

import json
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

A, IN = 1, 1
TTL_S = 5
NO_ERROR, SERVER_FAILED, NO_SUCH_NAME = 0, 2, 3
REPLY = 0x8580  # an authority's answer, recursion as asked
HEADER = struct.Struct("!6H")
SUFFIX = ["svc", "cluster", "local"]


class Services:
    """Addresses of Services, asked of the API server.

    Args:
        kubeconfig: Whose first cluster and user are taken.
    """

    def __init__(self, kubeconfig: dict[str, Any]) -> None:
        cluster = kubeconfig["clusters"][0]["cluster"]
        self._url = cluster["server"]
        self._trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._token = kubeconfig["users"][0]["user"]["token"]

    def address(self, labels: list[str]) -> str | None:
        """The address of the Service of a name; None if there is none."""
        if len(labels) != 2 + len(SUFFIX) or labels[2:] != SUFFIX:
            return None
        path = f"{self._url}/api/v1/namespaces/{labels[1]}/services/{labels[0]}"
        request = urllib.request.Request(path, headers={"Authorization": f"Bearer {self._token}"})  # noqa: S310 - https
        try:
            with urllib.request.urlopen(request, context=self._trust, timeout=5) as answer:  # noqa: S310 - the same
                return str(json.load(answer)["spec"]["clusterIP"])
        except urllib.error.HTTPError:
            return None


def answer(query: bytes, services: Services) -> bytes:
    """The reply to a query of one question."""
    number, _, _, _, _, _ = HEADER.unpack_from(query)
    labels, end = _name(query, HEADER.size)
    kind, _ = struct.unpack_from("!2H", query, end)
    question = query[HEADER.size : end + 4]
    try:
        address = services.address(labels)
    except OSError:
        return HEADER.pack(number, REPLY | SERVER_FAILED, 1, 0, 0, 0) + question
    if address is None:
        return HEADER.pack(number, REPLY | NO_SUCH_NAME, 1, 0, 0, 0) + question
    if kind != A:
        return HEADER.pack(number, REPLY | NO_ERROR, 1, 0, 0, 0) + question
    record = struct.pack("!3HIH", 0xC000 | HEADER.size, A, IN, TTL_S, 4) + socket.inet_aton(address)
    return HEADER.pack(number, REPLY | NO_ERROR, 1, 1, 0, 0) + question + record


def _name(query: bytes, start: int) -> tuple[list[str], int]:
    """Labels of the name that starts there, and where it ends."""
    labels = []
    while length := query[start]:
        labels.append(query[start + 1 : start + 1 + length].decode("ascii").lower())
        start += 1 + length
    return labels, start + 1


def main() -> None:
    """Serve until killed; what cannot be read gets no answer, as from any server."""
    services = Services(json.loads(Path(sys.argv[2]).read_text()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1], 53))
        while True:
            query, client = server.recvfrom(4096)
            try:
                reply = answer(query, services)
            except (IndexError, struct.error, UnicodeDecodeError):
                continue
            server.sendto(reply, client)


if __name__ == "__main__":
    main()
