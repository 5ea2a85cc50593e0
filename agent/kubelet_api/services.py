"""Calls and serves the interfaces of the .proto files, by the descriptors that their messages come with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass


class Stub:
    """A client of one interface; each of its methods is an attribute.

    Args:
        messages: The module that protoc made of the .proto file.
        service: Name of the interface there.
        channel: Connection to the server; calls are awaited if it is one of `grpc.aio`.
    """

    def __init__(self, messages: ModuleType, service: str, channel: grpc.Channel | grpc.aio.Channel) -> None:
        described: ServiceDescriptor = messages.DESCRIPTOR.services_by_name[service]
        for method in described.methods:
            request, answer = _types(method)
            call = channel.unary_stream if method.server_streaming else channel.unary_unary
            path = f"/{described.full_name}/{method.name}"
            setattr(self, method.name, call(path, request.SerializeToString, answer.FromString))

    def __getattr__(self, name: str) -> Any:
        """Types the methods, which are set for each client; called for none of them."""
        raise AttributeError(name)


def serve(
    implementation: object, messages: ModuleType, service: str, server: grpc.Server | grpc.aio.Server
) -> None:
    """Serve an interface by an object with its methods; gRPC refuses calls of those that it lacks.

    Args:
        implementation: Has methods with the names of the interface.
        messages: The module that protoc made of the .proto file.
        service: Name of the interface there.
        server: Not started yet.
    """
    described: ServiceDescriptor = messages.DESCRIPTOR.services_by_name[service]
    handlers = {
        method.name: _handler(method, getattr(implementation, method.name))
        for method in described.methods
        if hasattr(implementation, method.name)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(described.full_name, handlers),))


def _handler(method: MethodDescriptor, function: Any) -> Any:
    request, answer = _types(method)
    serving = (
        grpc.unary_stream_rpc_method_handler
        if method.server_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return serving(function, request.FromString, answer.SerializeToString)


def _types(method: MethodDescriptor) -> tuple[Any, Any]:
    return GetMessageClass(method.input_type), GetMessageClass(method.output_type)
