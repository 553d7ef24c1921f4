"""How cost grows with the number of persons."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from benchmark import rounds
from benchmark.client import Request, open_client
from benchmark.data import fill, prepare
from benchmark.processes import all_cores
from benchmark.rounds import Plan, Subject
from benchmark.samples import FullList, Part, Results
from benchmark.testbed import Testbed
from benchmark.workloads import growth_workloads

SIZES = (10_000, 100_000, 1_000_000, 3_000_000)
"""The numbers of persons by default."""

FULL_LISTS = ("/persons", "/persons?include=computers")
"""The collections that are downloaded as a whole, to measure memory."""


async def measure_growth(
    testbed: Testbed, sizes: Sequence[int], plan: Plan, results: Results
) -> None:
    """Measure the service, on one core, on databases of these numbers of persons."""
    for persons in sizes:
        print(f"{Part.GROWTH}: creating {persons:,} persons", flush=True)
        await fill(testbed.database(_name(persons)), persons)
        await prepare(testbed.database(_name(persons)))
    async with AsyncExitStack() as stack:
        subjects = [
            Subject(
                f"{persons:,} persons",
                await stack.enter_async_context(
                    testbed.service(_name(persons), all_cores()[:1], is_patient=True)
                ),
                growth_workloads(persons, testbed.new_directory()),
            )
            for persons in sizes
        ]
        await rounds.measure(Part.GROWTH, subjects, plan, results)
    for persons in sizes:
        for path in FULL_LISTS:
            results.full_lists.append(await _full_list(testbed, path, persons))


async def _full_list(testbed: Testbed, path: str, persons: int) -> FullList:
    """Download a collection from a newly started service, whose memory nothing else has grown."""
    async with (
        testbed.service(_name(persons), all_cores()[:1]) as server,
        open_client(server) as client,
    ):
        await client.send(Request("GET", "/persons/1?include=computers"))
        server.reset_peak_memory()
        before = server.peak_memory
        download = await client.download(Request("GET", path))
        growth = server.peak_memory - before
    print(
        f"    {path} of {persons:,} persons: {download.seconds:,.1f} s, "
        f"{download.bytes / 1e6:,.0f} MB, memory grew by {growth / 1e6:,.1f} MB",
        flush=True,
    )
    return FullList(path, persons, download.seconds, download.bytes, growth)


def _name(persons: int) -> str:
    return f"growth_{persons}"
