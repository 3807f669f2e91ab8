"""Python clients of the gRPC door: `Client`, and `AsyncClient` for asyncio."""

from .aio import AsyncClient
from .sync import Client

__all__ = ["AsyncClient", "Client"]
