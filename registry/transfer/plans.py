"""Plans: what an import does for a row, given what is stored."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count

from registry.transfer.operations import (
    Operation,
    ResourceIdentifier,
    add_computer,
    add_person,
    local_identifier,
    set_owner,
    update_person,
)
from registry.transfer.rows import COMPUTER, PERSON, SERIAL, Attributes, Row
from registry.transfer.tally import Effect


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """A person that a row may match: stored, or created by an earlier row of the batch.

    identifier: local in the second case.
    """

    identifier: ResourceIdentifier
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class KnownComputer:
    """A computer that a row may match, like KnownPerson."""

    identifier: ResourceIdentifier
    owner: ResourceIdentifier | None


@dataclass(frozen=True, slots=True)
class PersonKey:
    """What identifies a person: the e-mail address, or the names of one without an address."""

    email: str | None
    names: tuple[str, str] | None = None

    @classmethod
    def of(cls, attributes: Attributes) -> "PersonKey | None":
        """Return the key, None if values of the wrong type leave none."""
        email = attributes.get("email")
        names = attributes.get("first_name"), attributes.get("last_name")
        match email, names:
            case str(), _:
                return cls(email)
            case None, (str(first), str(last)):
                return cls(None, (first, last))
        return None


@dataclass(slots=True)
class Plan:
    """The changes for one row.

    person: the owner of the computers, created if it is new. changes: its attributes to write.
    new_computers: with their local ids. moved: known computers that change owner, with the previous
    one.
    """

    row: Row
    person: ResourceIdentifier | None = None
    is_new: bool = False
    changes: Attributes | None = None
    new_computers: list[tuple[str, Attributes]] = field(default_factory=list)
    moved: list[KnownComputer] = field(default_factory=list)
    effects: Counter[tuple[Effect, str]] = field(default_factory=Counter)

    def operations(self) -> list[Operation]:
        """Return the operations, for one request: first the one on the person, if there is one."""
        creations = [add_computer(each, self.person, lid) for lid, each in self.new_computers]
        moves = [set_owner(each.identifier, self.person) for each in self.moved]
        return [*self.person_operations(), *creations, *moves]

    def person_operations(self) -> list[Operation]:
        """Return the operation on the person, if there is one."""
        if self.person is None or self.changes is None:
            return []
        write = add_person if self.is_new else update_person
        return [write(self.person, self.changes)]


class Planner:
    """Plans the rows of one batch, in order.

    known_persons, known_computers: what the rows may match; None if every row is new. Of several
    computers with a serial, one that the person owns already is preferred.
    """

    def __init__(
        self,
        known_persons: dict[PersonKey, KnownPerson] | None = None,
        known_computers: defaultdict[str, list[KnownComputer]] | None = None,
    ) -> None:
        self._persons = known_persons
        self._computers = known_computers
        self._lids = map(str, count(1))

    def plan(self, row: Row, owner: ResourceIdentifier | None = None) -> Plan:
        """Return the plan of a row; later rows of the batch match what it creates.

        owner: the person, if the row continues that of another batch.
        """
        plan = Plan(row, owner)
        if row.person is not None and owner is None:
            self._plan_person(plan, row.person)
        for attributes in row.computers:
            self._plan_computer(plan, attributes)
        return plan

    def _plan_person(self, plan: Plan, attributes: Attributes) -> None:
        key = PersonKey.of(attributes)
        known = self._persons.get(key) if self._persons is not None and key else None
        if known is None:
            plan.person, plan.is_new = local_identifier(PERSON, next(self._lids)), True
            plan.changes, effect, before = attributes, Effect.CREATED, {}
        else:
            plan.person, before = known.identifier, dict(known.attributes)
            # What is not stored as an attribute, such as a name that is misspelled, is an error of
            # the row, which the service reports.
            changes = {
                name: value
                for name, value in attributes.items()
                if name not in before or before[name] != value
            }
            plan.changes = changes or None
            effect = Effect.CHANGED if changes else Effect.UNCHANGED
        plan.effects[effect, PERSON] += 1
        if self._persons is not None and key:
            self._persons[key] = KnownPerson(plan.person, {**before, **attributes})

    def _plan_computer(self, plan: Plan, attributes: Attributes) -> None:
        serial = attributes.get(SERIAL)
        matches = []
        if self._computers is not None and isinstance(serial, str):
            matches = self._computers[serial]
        owned = [each for each in matches if plan.person in (None, each.owner)]
        if owned:
            effect = Effect.UNCHANGED
        elif matches:
            plan.moved.append(matches[0])
            matches[0] = KnownComputer(matches[0].identifier, plan.person)
            effect = Effect.CHANGED
        else:
            lid = "" if self._computers is None else next(self._lids)
            plan.new_computers.append((lid, attributes))
            matches.append(KnownComputer(local_identifier(COMPUTER, lid), plan.person))
            effect = Effect.CREATED
        plan.effects[effect, COMPUTER] += 1
