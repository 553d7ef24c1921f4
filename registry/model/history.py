"""Histories: the read-only types that follow from links whose changes are kept."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from marshmallow import Schema

from registry.model.attributes import Attribute, Text
from registry.model.authorship import PERIOD_AUTHORSHIP
from registry.model.period import BEGINNING, LASTING, SINCE, UNTIL, CopiedText, PeriodBound
from registry.model.resource_type import History, Link, ResourceType


@dataclass(frozen=True, slots=True)
class TrackedLink:
    """A link with a history.

    source: the type that declares it. target: the type it leads to. periods: the generated type.
    """

    source: ResourceType
    link: Link
    target: ResourceType
    periods: ResourceType

    @property
    def source_key(self) -> str:
        """The stored field of a period with the id of the resource that declares the link."""
        return self.source.type

    @property
    def target_key(self) -> str:
        """The stored field of a period with the id of the target."""
        return self.link.name


def tracked_links(graph: Mapping[str, ResourceType]) -> Iterator[TrackedLink]:
    """Yield the links of all types that have a history."""
    for source in graph.values():
        for link in source.links:
            if link.history:
                yield TrackedLink(source, link, graph[link.target], graph[link.history.type])


def history_types(resources: Iterable[ResourceType]) -> Iterator[ResourceType]:
    """Yield the types of the periods that the links of some types declare."""
    types = {one.type: one for one in resources}
    for source in types.values():
        for link in source.links:
            if link.history and link.target in types:
                yield _history_type(source, link, link.history, types[link.target])


def _history_type(
    source: ResourceType, link: Link, history: History, target: ResourceType
) -> ResourceType:
    attributes: dict[str, Attribute] = {
        SINCE: PeriodBound(
            BEGINNING,
            description="When it began; null if that was before records began.",
        ),
        UNTIL: PeriodBound(
            LASTING,
            example=None,
            description="When it ended; null while it lasts, which counts as later than any time.",
        ),
    }
    for end, end_type, copies in (
        (source.type, source, history.source_copies),
        (link.name, target, history.target_copies),
    ):
        for name, source_name in copies.items():
            attributes[name] = _copied_attribute(end, source_name, end_type)
    return ResourceType(
        type=history.type,
        collection=history.collection,
        schema=Schema.from_dict({**attributes}),
        links=(
            Link(
                name=source.type,
                target=source.type,
                foreign_key=source.type,
                inverse=history.collection,
            ),
            Link(
                name=link.name,
                target=target.type,
                foreign_key=link.name,
                # Of a link from a type to itself, both ends would have the same name.
                inverse=history.collection
                if target is not source
                else f"{history.collection}_as_{link.name}",
            ),
        ),
        authorship=PERIOD_AUTHORSHIP,
        history_of=link,
    )


def _copied_attribute(end: str, source_name: str, end_type: ResourceType) -> CopiedText:
    """Return the attribute of a period that copies one of the type at an end of the link."""
    attribute = end_type.attributes.get(source_name)
    example = attribute.openapi_schema()["example"] if isinstance(attribute, Text) else None
    description = (
        f"The `{source_name}` of the {end_type.type}, as it is, or was when the period ended."
    )
    return CopiedText(end, source_name, example=example, description=description)
