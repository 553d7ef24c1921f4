"""A client of the service for asyncio, which loads only aiohttp and orjson."""

from registry.client.registry_client import Client
from registry.client.transport import Conflict, Gone, RegistryError, Resource, ResourceChange

__all__ = ["Client", "Conflict", "Gone", "RegistryError", "Resource", "ResourceChange"]
