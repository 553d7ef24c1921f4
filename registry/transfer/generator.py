"""Generated data: the same seed and counts produce the same persons, computers and owners."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faker import Faker

from registry.transfer.rows import SERIAL, Attributes

_SHARE_WITH_EMAIL = 0.9
_SHARE_OWNED = 0.9


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """The numbers of resources to generate, and the seed of the random choices."""

    persons: int
    computers: int
    seed: int


class Generator:
    """Generates persons, then computers, with realistic values."""

    def __init__(self, options: GeneratorOptions) -> None:
        self._options = options
        self._faker = Faker()
        self._faker.seed_instance(options.seed)

    def persons(self) -> Iterator[Attributes]:
        """Yield the attributes of persons, some of them without an e-mail address."""
        namesakes: Counter[str] = Counter()
        random = self._faker.random
        for _ in range(self._options.persons):
            first_name, last_name = self._faker.first_name(), self._faker.last_name()
            person = {"first_name": first_name, "last_name": last_name}
            if random.random() < _SHARE_WITH_EMAIL:
                name = f"{first_name}.{last_name}".lower()
                namesakes[name] += 1
                suffix = namesakes[name] if namesakes[name] > 1 else ""
                domain = random.choice(("example.org", "example.com", "example.net"))
                person["email"] = f"{name}{suffix}@{domain}"
            yield person

    def computers(self, owners: Sequence[str]) -> Iterator[tuple[Attributes, str | None]]:
        """Yield the attributes of computers, each with the id of its owner or None.

        owners: the ids of all persons, in the order in which they were generated.
        """
        random = self._faker.random
        for number in range(1, self._options.computers + 1):
            vendor = random.choice(("5CG", "C02", "MXL", "PF"))
            serial = f"{vendor}{random.randint(18, 25)}{random.randint(1, 52):02}{number:05}"
            owned = owners and random.random() < _SHARE_OWNED
            yield {SERIAL: serial}, random.choice(owners) if owned else None
