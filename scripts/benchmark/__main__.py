"""The command line: `scripts/bench --help` lists the options."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson

from benchmark import plot, table
from benchmark.comparison import compare_servers, compare_workers, measure_overload
from benchmark.followers import measure_followers
from benchmark.goals import CONNECTIONS
from benchmark.growth import SIZES, measure_growth
from benchmark.neighbours import measure_neighbours
from benchmark.processes import BenchmarkError, all_cores
from benchmark.production import compare_in_production
from benchmark.rounds import Plan
from benchmark.samples import Part, Results
from benchmark.testbed import new_testbed
from benchmark.workloads import TITLES
from registry.program import StartError

_RESULTS = Path(__file__).with_name("results")
_PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


async def run(options: argparse.Namespace) -> Results:
    """Run the selected parts. Raises BenchmarkError or StartError."""
    wrk_cores = all_cores()[-1:]
    plan = Plan(options.rounds, options.seconds, options.connections, wrk_cores)
    goal_plan = replace(plan, connections=[CONNECTIONS])
    persons = options.persons[0]
    async with new_testbed() as testbed:
        measured = "1 round" if options.rounds == 1 else f"medians of {options.rounds} rounds"
        results = Results(
            f"{await testbed.environment()}; {measured}; "
            f"at least {options.seconds} s per measurement"
        )
        if Part.SERVERS in options.parts:
            await compare_servers(testbed, persons, options.workloads, plan, results)
        if Part.PRODUCTION in options.parts:
            await compare_in_production(testbed, persons, options.workloads, goal_plan, results)
        if Part.WORKERS in options.parts:
            await compare_workers(testbed, persons, options.workloads, goal_plan, results)
        if Part.GROWTH in options.parts:
            growth_plan = replace(plan, connections=[1, CONNECTIONS])
            await measure_growth(testbed, options.persons, growth_plan, results)
        if Part.NEIGHBOURS in options.parts:
            await measure_neighbours(testbed, persons, goal_plan, results)
        if Part.OVERLOAD in options.parts:
            await measure_overload(testbed, persons, goal_plan, results)
        if Part.FOLLOWERS in options.parts:
            await measure_followers(testbed, persons, goal_plan, results)
    return results


def publish(results: Results, options: argparse.Namespace) -> None:
    """Print the tables; write tables, samples and a chart; with --docs, update the page."""
    tables = table.tables(results)
    print(f"\n{tables}")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "benchmark.md").write_text(tables, encoding="utf-8")
    (options.output / "benchmark.json").write_bytes(orjson.dumps(results) + b"\n")
    plot.draw(results, options.output)
    if options.docs:
        page = _PAGE.read_text(encoding="utf-8")
        _PAGE.write_text(table.replace_summary(page, table.summary(results)), encoding="utf-8")


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line; exit with status 2 if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Compare the service with a constant and a naive server, and two workers with "
        "one; measure how cost grows with the database; print tables and draw a chart.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _add_selection(parser)
    _add_precision(parser)
    parser.add_argument("--output", type=Path, default=_RESULTS, help="directory of the results")
    parser.add_argument(
        "--docs", action="store_true", help="also write the summary to docs/performance.md"
    )
    return parser.parse_args(arguments)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select what is measured."""
    parser.add_argument(
        "--connections",
        type=_integer(1, 10_000),
        nargs="+",
        default=[1, 16, 64, 256],
        help="numbers of connections in the part `servers`",
    )
    parser.add_argument(
        "--workloads",
        choices=TITLES,
        nargs="+",
        default=list(TITLES),
        help="workloads of the parts `servers`, `production` and `workers`",
    )
    parser.add_argument(
        "--parts",
        choices=[*Part],
        type=Part,
        nargs="+",
        default=[part.value for part in Part],
        help="parts to run",
    )
    parser.add_argument(
        "--persons",
        type=_integer(200, 10**8),
        nargs="+",
        default=list(SIZES),
        help="database sizes, ascending; servers and workers are compared on the first",
    )


def _add_precision(parser: argparse.ArgumentParser) -> None:
    """Add the options that determine how often and how long each workload is measured."""
    positive = _integer(1, 10**9)
    parser.add_argument(
        "--rounds", type=positive, default=3, help="measurements of each kind; medians are shown"
    )
    parser.add_argument(
        "--seconds", type=positive, default=1, help="minimum duration of a measurement"
    )


def _integer(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and minimum <= int(text) <= maximum):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not an integer from {minimum} to {maximum}"
            )
        return int(text)

    return parse


async def _until_signal(options: argparse.Namespace) -> Results:
    """Call `run`; SIGINT and SIGTERM cancel it, which stops all processes that it started."""
    task = asyncio.create_task(run(options))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def main() -> int:
    """Run the command line; return the exit status, which is 0 only if no request failed."""
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
