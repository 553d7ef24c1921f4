"""The command `seed`: fills a running service with generated persons and computers."""

from collections.abc import Sequence

from registry.commands.client_command import EPILOG, add_url, run, url_of
from registry.installation import program
from registry.settings import Parser
from registry.transfer.client import Client
from registry.transfer.tally import Tally


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    url = url_of(parser, parsed)
    persons = parser.parse_value("--persons", parsed.persons, _count)
    computers = 3 * persons
    if parsed.computers is not None:
        computers = parser.parse_value("--computers", parsed.computers, _count)
    tally = Tally(owned=0)

    async def work(client: Client) -> None:
        # Imported late: loading Faker takes longer than to report wrong arguments.
        from registry.transfer.generator import Generator, GeneratorOptions  # noqa: PLC0415
        from registry.transfer.progress import shown_progress  # noqa: PLC0415
        from registry.transfer.seeding import Seeding  # noqa: PLC0415

        generator = Generator(GeneratorOptions(persons, computers, parsed.seed))
        with shown_progress("resources", persons + computers) as progress:
            await Seeding(client, tally, progress).run(generator)

    run(work, url, tally)


def _parser() -> Parser:
    parser = Parser(
        prog=f"{program()} seed",
        usage="%(prog)s [OPTIONS]",
        description="Fill a running service with generated persons and their computers.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    add_url(parser)
    parser.add_argument(
        "--persons", default="100", metavar="COUNT", help="number to create [default: 100]"
    )
    parser.add_argument(
        "--computers", metavar="COUNT", help="number to create [default: 3 per person]"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="NUMBER",
        help="the same seed and counts produce the same data [default: 1]",
    )
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a valid count")
    return int(text)
