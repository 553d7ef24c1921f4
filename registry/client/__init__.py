"""A client of the service for asyncio, which loads only aiohttp and orjson."""

from registry.client.client_documents import (
    Conflict,
    Gone,
    RegistryError,
    Resource,
    UnexpectedResponse,
)
from registry.client.registry_client import Client, ResourceChange

__all__ = ["Client", "Conflict", "Gone", "RegistryError", "Resource", "ResourceChange"]
__all__ += ["UnexpectedResponse"]
