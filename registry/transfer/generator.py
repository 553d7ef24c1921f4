"""Generated data: the same seed and counts produce the same persons, computers and owners."""

from collections import Counter
from collections.abc import Iterator

from faker import Faker

from registry.transfer.rows import Mention, Row

_SHARE_WITH_EMAIL = 0.9
_SHARE_OWNED = 0.9


def generate(persons: int, computers: int, seed: int) -> Iterator[Row]:
    """Yield persons, some without an e-mail address, then computers, some without an owner."""
    faker = Faker()
    faker.seed_instance(seed)
    random = faker.random
    namesakes: Counter[str] = Counter()
    for number in range(1, persons + 1):
        first_name, last_name = faker.first_name(), faker.last_name()
        person = {"first_name": first_name, "last_name": last_name}
        if random.random() < _SHARE_WITH_EMAIL:
            name = f"{first_name}.{last_name}".lower()
            namesakes[name] += 1
            suffix = namesakes[name] if namesakes[name] > 1 else ""
            domain = random.choice(("example.org", "example.com", "example.net"))
            person["email"] = f"{name}{suffix}@{domain}"
        yield Row("person", person, lid=str(number), line=number)
    for number in range(1, computers + 1):
        vendor = random.choice(("5CG", "C02", "MXL", "PF"))
        serial = f"{vendor}{random.randint(18, 25)}{random.randint(1, 52):02}{number:05}"
        is_owned = persons and random.random() < _SHARE_OWNED
        owner = None
        if is_owned:
            owner = Mention("person", {}, lid=str(random.randint(1, persons)), prefix="owner.")
        yield Row("computer", {"serial": serial}, line=persons + number, links={"owner": owner})
