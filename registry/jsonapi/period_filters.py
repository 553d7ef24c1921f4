"""Filters of periods: by a moment, and by what a period copies from the ends of its link."""

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Related
from registry.model.attributes import Attribute, Operator
from registry.model.graph import Graph
from registry.model.period import LASTING, SINCE, UNTIL, CopiedText, Moment
from registry.model.resource_type import ResourceType


def expand(
    condition: Condition, attribute: Attribute, resource: ResourceType, graph: Graph
) -> Filter:
    """Return what a condition on an attribute of periods stands for.

    A copy is compared where it is stored: in the period if that has ended, else at the end of the
    link. resource: the type of the periods.
    """
    match attribute:
        case Moment():
            return AllOf(
                (
                    Condition(SINCE, Operator.LE, condition.value),
                    Condition(UNTIL, Operator.GT, condition.value),
                )
            )
        case CopiedText(end=end, source=source):
            relationship = resource.relationships[end]
            current_value = Condition(source, condition.operator, condition.value)
            on_end = Related(relationship, graph[relationship.target], current_value)
            return AnyOf(
                (
                    AllOf((Condition(UNTIL, Operator.NE, LASTING), condition)),
                    AllOf((Condition(UNTIL, Operator.EQ, LASTING), on_end)),
                )
            )
    return condition
