"""The gRPC port at addresses of every kind."""

from __future__ import annotations

import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.rpc.server import serving
from motet.streaming.server import Server
from motet.streaming.settings import Settings

ECHO = {"name": "e", "nodes": {"a": {"use": "fakes:Echo"}}, "edges": ["input -> a -> output"]}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_it_listens_there(host: str) -> None:
    try:
        with socket.create_server((host, 0), family=socket.getaddrinfo(host, 0)[0][0]):
            pass
    except OSError:
        pytest.skip(f"this machine has no {host}")
    settings = Settings(host=host, shutdown_grace_s=0.2)
    server = Server.make([build(PipelineSpec.model_validate(ECHO))], settings)
    async with (
        server.pipelines["e"],
        serving(server, port=0) as port,
        grpc.aio.insecure_channel(f"{settings.url_host}:{port}") as channel,
    ):
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status in (1, 2)
