"""The service beside a constant answer and the naive handlers; and two workers beside one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

import orjson

from benchmark import rounds
from benchmark.client import Request, client_of
from benchmark.data import fill, remove_created
from benchmark.processes import BenchmarkError, Server, all_cores, running
from benchmark.rounds import Plan, Subject
from benchmark.samples import CONSTANT, NAIVE, ONE_WORKER, SERVICE, TWO_WORKERS, Part, Results
from benchmark.site import Site
from benchmark.works import Work, comparing


async def compare_servers(
    site: Site, persons: int, names: Collection[str], plan: Plan, results: Results
) -> None:
    """Measure the service, a constant answer and the naive handlers, each alone on one core."""
    one_core = all_cores()[:1]
    for name in (NAIVE, SERVICE):
        await fill(site.database(name), persons)
    async with AsyncExitStack() as stack:
        constant = await stack.enter_async_context(running(one_core, "benchmark.constant"))
        naive = await stack.enter_async_context(
            running(one_core, "benchmark.naive", site.uri, NAIVE)
        )
        service = await stack.enter_async_context(site.service(SERVICE, one_core))
        every = await _works(site, service, persons)
        answers = await _answers(naive, service, every)
        works = _named(names, every)

        async def set_answer(work: Work) -> None:
            async with client_of(constant.url) as client:
                await client.send(Request("PUT", "/", answers[work.name]))

        subjects = [
            Subject(CONSTANT, constant, works, before=set_answer),
            _restored(Subject(NAIVE, naive, works), site, NAIVE, persons),
            _restored(Subject(SERVICE, service, works), site, SERVICE, persons),
        ]
        await rounds.measure(Part.SERVERS, subjects, plan, results)


async def compare_workers(
    site: Site, persons: int, names: Collection[str], plan: Plan, results: Results
) -> None:
    """Measure the service with one worker and with two, on all cores."""
    database = "workers"
    await fill(site.database(database), persons)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(site.service(database, all_cores(), "--workers", count))
            for count in ("1", "2")
        ]
        works = _named(names, await _works(site, servers[0], persons))
        subjects = [
            _restored(Subject(name, server, works), site, database, persons)
            for name, server in zip((ONE_WORKER, TWO_WORKERS), servers, strict=True)
        ]
        await rounds.measure(Part.WORKERS, subjects, replace(plan, cores=all_cores()), results)


async def _works(site: Site, service: Server, persons: int) -> dict[str, Work]:
    async with client_of(service.url) as client:
        return await comparing(client, persons, site.new_directory())


def _named(names: Collection[str], works: Mapping[str, Work]) -> dict[str, Work]:
    return {name: work for name, work in works.items() if name in names}


async def _answers(naive: Server, service: Server, works: Mapping[str, Work]) -> dict[str, bytes]:
    """Return what the service answers to each work.

    Raises BenchmarkError if the naive handlers do not give the same document.
    """
    answers = {}
    async with client_of(naive.url) as one, client_of(service.url) as other:
        for name, work in works.items():
            simple = (await one.send(work.sample)).replace(naive.url.encode(), b"")
            answers[name] = await other.send(work.sample)
            if orjson.loads(simple) != orjson.loads(
                answers[name].replace(service.url.encode(), b"")
            ):
                raise BenchmarkError(f"{work.title}: the naive handler gives another answer")
    return answers


def _restored(subject: Subject, site: Site, database: str, persons: int) -> Subject:
    """Return the subject without the persons that it creates, so that lists stay as they are."""

    async def after(work: Work) -> None:
        if work.sample.method == "POST":
            await remove_created(site.database(database), persons)

    return replace(subject, after=after)
