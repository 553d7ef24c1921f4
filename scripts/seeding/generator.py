"""Generated data.

The same seed and counts produce the same names, e-mail addresses, serials and owners. Ids may
differ, because the service assigns them in the order in which requests arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from faker import Faker
from tqdm import tqdm

from seeding.client import Client
from seeding.parallel import in_parallel

_SHARE_WITH_EMAIL = 0.9
_SHARE_OWNED = 0.9


def people(faker: Faker, count: int) -> Iterator[dict[str, str]]:
    """Yield the attributes of persons, some of them without an e-mail address."""
    namesakes: Counter[str] = Counter()
    for _ in range(count):
        first_name, last_name = faker.first_name(), faker.last_name()
        person = {"first_name": first_name, "last_name": last_name}
        if faker.random.random() < _SHARE_WITH_EMAIL:
            name = f"{first_name}.{last_name}".lower()
            namesakes[name] += 1
            suffix = namesakes[name] if namesakes[name] > 1 else ""
            domain = faker.random.choice(("example.org", "example.com", "example.net"))
            person["email"] = f"{name}{suffix}@{domain}"
        yield person


def computers(faker: Faker, count: int, owners: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield serials, each with the id of its owner or None."""
    random = faker.random
    for number in range(1, count + 1):
        vendor = random.choice(("5CG", "C02", "MXL", "PF"))
        serial = f"{vendor}{random.randint(18, 25)}{random.randint(1, 52):02}{number:05}"
        owned = owners and random.random() < _SHARE_OWNED
        yield serial, random.choice(owners) if owned else None


@dataclass(frozen=True)
class GeneratorOptions:
    """The numbers of resources to generate, and the seed of the random choices."""

    persons: int
    computers: int
    seed: int


async def generate(client: Client, options: GeneratorOptions, bar: tqdm[NoReturn]) -> None:
    """Create the persons, then the computers with their owners."""
    faker = Faker()
    faker.seed_instance(options.seed)
    ids: dict[int, str] = {}

    async def create_person(numbered: tuple[int, dict[str, str]]) -> None:
        number, attributes = numbered
        ids[number] = await client.create_person(attributes)

    async def create_computer(computer: tuple[str, str | None]) -> None:
        await client.create_computer(*computer)

    await in_parallel(enumerate(people(faker, options.persons)), create_person, bar)
    # Sorted, because responses arrive in any order and ownership must depend on the seed alone.
    owners = [ids[number] for number in sorted(ids)]
    await in_parallel(computers(faker, options.computers, owners), create_computer, bar)
