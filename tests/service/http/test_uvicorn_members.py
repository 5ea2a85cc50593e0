"""What we lean on of uvicorn's that is not its API, and what happens where uvicorn is another."""

import ast
from pathlib import Path

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.http import connection, serving

LEANED_ON = {
    connection: {
        "app", "app_state", "cycle", "cycle.disconnected", "cycle.keep_alive", "cycle.message_event",
        "cycle.response_complete", "cycle.response_started", "flow", "flow.pause_reading", "flow.read_paused",
        "flow.resume_reading", "headers", "loop", "on_header", "on_headers_complete", "on_message_begin",
        "on_message_complete", "parser", "server_state", "server_state.total_requests", "transport", "url",
    },
    serving: {"config", "lifespan", "server_state", "server_state.default_headers", "servers", "started"},
}  # fmt: skip
"""By module; a member of a member with a dot. Whoever changes it reads uvicorn's releases again."""
API = {
    "__init__", "connection_lost", "connection_made", "data_received", "pause_writing", "resume_writing",
    "serve", "should_exit", "shutdown",
}  # fmt: skip
"""asyncio's own names of what a protocol has, and what uvicorn documents of its servers."""


def names_of(source, known):
    """Attributes of self, super() and uvicorn's class in a module that uvicorn's objects have."""
    found = set()
    for node in ast.walk(ast.parse(Path(source.__file__).read_text())):
        if isinstance(node, ast.Attribute):
            chain = ast.unparse(node).removeprefix("HttpToolsProtocol.").removeprefix("super().")
            found.add(chain.removeprefix("self.").removeprefix("server."))
    return {name for name in found if name in known}


def members():
    """What uvicorn's protocol, and the objects that it holds, have once they are made."""
    config = uvicorn.Config(app=None, lifespan="off", log_config=None)
    config.load()
    protocol = HttpToolsProtocol(config, ServerState(), {}, _loop=Loop())
    server = uvicorn.Server(config)
    own = {*dir(protocol), *dir(server), "lifespan", "servers", "url"}
    held = {"flow": [*dir(FlowControl), "read_paused", "write_paused"], "server_state": dir(ServerState())}
    held["cycle"] = [*dir(RequestResponseCycle), *RequestResponseCycle.__init__.__code__.co_names]
    nested = {f"{name}.{member}" for name, names in held.items() for member in names}
    return {name for name in own | nested if "__" not in name} - API


class Loop:
    """As much of a loop as a protocol without a connection needs."""


@pytest.mark.parametrize("module", LEANED_ON, ids=lambda module: module.__name__)
def test_no_other_members_of_uvicorn_are_leaned_on(module):
    assert names_of(module, members()) == LEANED_ON[module]
