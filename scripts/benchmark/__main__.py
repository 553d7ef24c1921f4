"""The command line: `scripts/bench --help` lists the options."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from benchmark import report
from benchmark.mongodb import embedded
from benchmark.parts import PARTS, Run
from benchmark.processes import BenchmarkError
from benchmark.results import Results
from registry.program import StartError
from registry.setting_parsers import integer

_TABLES = Path(__file__).with_name("results.md")
_PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


async def _measure(options: argparse.Namespace) -> Results:
    """Run the selected parts. Raises BenchmarkError or StartError."""
    async with embedded() as mongodb:
        environment = await mongodb.environment()
        results = Results(f"{environment}; at least {options.seconds} s per measurement")
        run = Run(mongodb, options.persons, options.seconds, results)
        for name, measure in PARTS.items():
            if name in options.parts:
                await measure(run)
    return results


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Compare the service with a constant and a naive server, also as in "
        "production; measure how its cost grows with the database, how small requests fare next to "
        "heavy ones, and overload. The exit status is 1 if a request fails or a goal is missed.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, positive = parser.add_argument, integer(1, 10**8)
    add("--parts", choices=PARTS, nargs="+", default=list(PARTS), help="parts to run")
    add(
        "--persons",
        type=positive,
        nargs="+",
        default=[10_000, 100_000, 1_000_000],
        help="sizes of the database, ascending; all parts but growth use the first",
    )
    add("--seconds", type=positive, default=2, help="minimum duration of a measurement")
    add("--publish", action="store_true", help=f"write {_TABLES.name} and the table of the page")
    return parser.parse_args()


def main() -> int:
    """Run the command line; return the exit status."""
    options = _parse_options()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        results = asyncio.run(_measure(options))
    except (BenchmarkError, StartError) as error:
        print(f"registry: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("registry: interrupted", file=sys.stderr)
        return 130
    tables = report.tables(results)
    print(f"\n{tables}")
    if options.publish:
        _TABLES.write_text(tables, encoding="utf-8")
        page = _PAGE.read_text(encoding="utf-8")
        _PAGE.write_text(report.replace_summary(page, tables), encoding="utf-8")
    if results.failed or report.MISSED in tables:
        print("registry: requests failed, or goals are missed: see the tables", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
