"""The command `seed`: generated persons and computers for a running service."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from registry.commands.arguments import checked, client_parser, declared_graph
from registry.commands.import_ import Tally, store_lines
from registry.commands.ndjson_lines import Line
from registry.commands.output import fail
from registry.program import StartError

if TYPE_CHECKING:
    from faker import Faker

_SHARE_WITH_EMAIL = 0.9
_SHARE_OWNED = 0.9


def main(arguments: Sequence[str]) -> None:
    """Create generated persons and computers; exit with status 1 if that fails."""
    parser = client_parser("seed", "Fill a running service with generated persons and computers.")
    add = partial(parser.add_argument, metavar="COUNT", type=checked(_count))
    add("--persons", default=100, help="Create so many persons. [default: 100]")
    add("--computers", help="Create so many computers. [default: 3 per person]")
    seed_help = "Generate other data: the same seed and counts give the same. [default: 1]"
    parser.add_argument("--seed", type=int, default=1, metavar="NUMBER", help=seed_help)
    parsed, graph = parser.parse_args(arguments), declared_graph(arguments)
    computers = 3 * parsed.persons if parsed.computers is None else parsed.computers
    resources = generate(parsed.persons, computers, parsed.seed)
    lines = (Line(number, {"op": "add", "data": data}) for number, data in enumerate(resources, 1))
    store_lines(lines, Tally(graph, parsed.url))


def generate(persons: int, computers: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield resource objects: persons, some without an address, then computers, some without owner.

    The same seed and counts produce the same ones.
    """
    faker = _faker()
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
        yield {"type": "person", "lid": str(number), "attributes": person}
    for number in range(1, computers + 1):
        vendor = random.choice(("5CG", "C02", "MXL", "PF"))
        serial = f"{vendor}{random.randint(18, 25)}{random.randint(1, 52):02}{number:05}"
        computer: dict[str, Any] = {"type": "computer", "attributes": {"serial": serial}}
        if persons and random.random() < _SHARE_OWNED:
            owner = {"type": "person", "lid": str(random.randint(1, persons))}
            computer["relationships"] = {"owner": {"data": owner}}
        yield computer


def _faker() -> "Faker":
    """Return a generator. Exits with one line if the extra `seed` is not installed."""
    try:
        # Imported late: loading it takes longer than to report wrong arguments.
        from faker import Faker  # noqa: PLC0415
    except ModuleNotFoundError:
        fail(
            StartError("`seed` needs Faker: install the extra `seed`, as in pip install '.[seed]'")
        )
    return Faker()


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a valid count")
    return int(text)
