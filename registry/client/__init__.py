"""A client of the service for asyncio, which loads only aiohttp and orjson."""

from registry.client.client_documents import (
    Conflict,
    Gone,
    RegistryError,
    Resource,
    ResourceChange,
)
from registry.client.registry_client import Client

__all__ = ["Client", "Conflict", "Gone", "RegistryError", "Resource", "ResourceChange"]
