"""The command line: `scripts/bench --help` lists the options."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import orjson

from benchmark import plot, table
from benchmark.comparison import compare_servers, compare_workers
from benchmark.goals import CONNECTIONS
from benchmark.growth import grow
from benchmark.processes import BenchmarkError, all_cores
from benchmark.rounds import Plan
from benchmark.samples import Part, Results
from benchmark.site import new_site
from benchmark.works import TITLES
from registry.settings import StartError

_HERE = Path(__file__).parent

_README = _HERE.parents[1] / "README.md"


async def run(options: argparse.Namespace) -> Results:
    """Measure what the options say. Raises BenchmarkError or StartError."""
    load = all_cores()[-1:]
    plan = Plan(options.rounds, options.seconds, options.connections, load)
    busy = Plan(options.rounds, options.seconds, [CONNECTIONS], load)
    first = options.persons[0]
    async with new_site() as site:
        results = Results(
            f"{await site.machine()}; rounds: {options.rounds}, of which the medians are shown; "
            f"seconds for each measurement: {options.seconds} or more"
        )
        if Part.SERVERS in options.parts:
            await compare_servers(site, first, options.works, plan, results)
        if Part.WORKERS in options.parts:
            await compare_workers(site, first, options.works, busy, results)
        if Part.GROWTH in options.parts:
            await grow(site, options.persons, busy, results)
    return results


def publish(results: Results, options: argparse.Namespace) -> None:
    """Print the tables and write all files, and into README.md if that is wanted."""
    tables = table.tables(results)
    print(f"\n{tables}")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "benchmark.md").write_text(tables, encoding="utf-8")
    (options.output / "benchmark.json").write_bytes(orjson.dumps(results) + b"\n")
    plot.draw(results, options.output)
    if options.readme:
        readme = _README.read_text(encoding="utf-8")
        _README.write_text(table.inserted(readme, tables), encoding="utf-8")


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line; end the program if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure the service beside a constant answer and a naive handler, two workers "
        "beside one, and how cost grows; print tables and draw pictures of them.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    positive = _within(1, 10**9)
    parser.add_argument("--rounds", type=positive, default=3, help="measurements of each kind")
    parser.add_argument(
        "--seconds", type=positive, default=2, help="the least time of a measurement"
    )
    parser.add_argument(
        "--connections",
        type=_within(1, 10_000),
        nargs="+",
        default=[1, 16, 64, 256],
        help="numbers of connections, for the comparison of the servers",
    )
    parser.add_argument(
        "--works", choices=TITLES, nargs="+", default=list(TITLES), help="works to compare in"
    )
    parser.add_argument(
        "--parts",
        choices=[*Part],
        type=Part,
        nargs="+",
        default=[part.value for part in Part],
        help="what to measure",
    )
    parser.add_argument(
        "--persons",
        type=_within(200, 10**8),
        nargs="+",
        default=[10_000, 1_000_000],
        help="sizes of databases, rising: servers and workers are compared on the first",
    )
    parser.add_argument(
        "--output", type=Path, default=_HERE / "results", help="directory of tables and pictures"
    )
    parser.add_argument(
        "--readme", action="store_true", help="put the tables into README.md as well"
    )
    return parser.parse_args(arguments)


def _within(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
        return int(text)

    return number


async def _until_signal(options: argparse.Namespace) -> Results:
    """Run; a signal ends all processes that were started, as an error does."""
    task = asyncio.create_task(run(options))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def main() -> int:
    """Run the command line; return its exit status, which is 0 only if no request failed."""
    options = parse_options()
    try:
        results = asyncio.run(_until_signal(options))
    except (BenchmarkError, StartError) as error:
        print(f"registry: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("registry: interrupted", file=sys.stderr)
        return 130
    publish(results, options)
    if results.failed:
        print(f"registry: {results.failed:,} requests failed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
