"""How cost grows with the number of persons."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from benchmark import rounds
from benchmark.client import Request, client_of
from benchmark.data import fill, prepare
from benchmark.processes import all_cores
from benchmark.rounds import Plan, Subject
from benchmark.samples import FullList, Part, Results
from benchmark.site import Site
from benchmark.works import growing

FULL_LISTS = ("/persons", "/persons?include=computers")
"""What is read as a whole, to see the memory that it takes."""


async def grow(site: Site, sizes: Sequence[int], plan: Plan, results: Results) -> None:
    """Measure the service on databases of these sizes, from one core each time."""
    for persons in sizes:
        print(f"{Part.GROWTH}: filling in {persons:,} persons", flush=True)
        await fill(site.database(_name(persons)), persons)
        await prepare(site.database(_name(persons)))
    async with AsyncExitStack() as stack:
        subjects = [
            Subject(
                f"{persons:,} persons",
                await stack.enter_async_context(site.service(_name(persons), all_cores()[:1])),
                growing(persons, site.new_directory()),
            )
            for persons in sizes
        ]
        await rounds.measure(Part.GROWTH, subjects, plan, results)
    for persons in sizes:
        for path in FULL_LISTS:
            results.lists.append(await _full_list(site, path, persons))


async def _full_list(site: Site, path: str, persons: int) -> FullList:
    """Read a list from a service that is new, whose memory therefore shows what that takes."""
    async with (
        site.service(_name(persons), all_cores()[:1]) as server,
        client_of(server.url) as client,
    ):
        await client.send(Request("GET", "/persons/1?include=computers"))
        server.reset_peak()
        before = server.peak
        reading = await client.read(Request("GET", path))
        found = FullList(path, persons, reading.seconds, reading.bytes, server.peak - before)
    print(
        f"    {path} of {persons:,} persons: {found.seconds:,.1f} s, "
        f"{found.bytes / 1e6:,.0f} MB, memory grew by {found.memory / 1e6:,.1f} MB",
        flush=True,
    )
    return found


def _name(persons: int) -> str:
    return f"growth_{persons}"
