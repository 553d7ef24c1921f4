"""Every sentence of the service description, and every decision, has a test that names it."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent

STATEMENTS = {
    # The service description, by its sections.
    "1.1": "persons and computers are stored and served as JSON:API documents",
    "1.2": "bodies of requests and responses are application/vnd.api+json",
    "1.3": "a GET may carry a Content-Type",
    "1.4": "resources are created, read one by one and as collections, and updated",
    "1.5": "clients restrict attributes and embed related resources",
    "1.6": "OpenAPI 3.0.0 and its UI are below /api/swagger, tags Person and Computer",
    "2.1.id": "the id of a person is an integer given by the service, a string in documents",
    "2.1.first_name": "first_name is a required string",
    "2.1.last_name": "last_name is a required string",
    "2.1.full_name": "full_name is derived from both and read-only",
    "2.1.email": "email is optional and has the format of an address",
    "2.1.computers": "computers is a to-many relationship to computer",
    "2.1.password": "a password is stored and never returned",
    "2.2.id": "the id of a computer follows the same rule",
    "2.2.serial": "serial is a required string",
    "2.2.owner": "owner is a to-one relationship, stored as the person of the computer",
    "2.2.unowned": "a computer is created without an owner",
    "2.2.owner_from_person": "the owner is set from the side of the person",
    "2.3": "a resource object has type, id, attributes, links.self, relationships if included",
    "2.4": "all fields can be read; id, person and owner are fields of a computer too",
    "2.5.get": "a GET returns first_name, last_name, full_name and email",
    "2.5.post": "a POST returns first_name, last_name and email",
    "2.5.computer": "a computer returns its serial alone",
    "4.1": "the routes and their methods",
    "4.2.body": "a POST takes data with type and attributes",
    "4.2.1": "a creation is answered with 201 and the resource with its id",
    "4.2.2": "links.self of it is the relative path of the new resource",
    "4.2.3": "an id sent by the client is ignored",
    "4.2.4": "full_name is not accepted as input",
    "4.3": "one resource is read with 200 and its relative path in links.self",
    "4.4.id": "the path selects the resource, the id in the body is discarded",
    "4.4.identifiers": "relationships.computers.data is an array of identifiers",
    "4.4.both": "attributes and relationships change in one request",
    "4.4.include": "include=computers adds the linked computers",
    "4.4.status": "an update is answered with 200, attributes and computers",
    "4.4.attributes": "attributes not sent stay",
    "4.5": "a collection is answered with 200 and meta.count",
    "4.6.members": "the members of a single-resource document",
    "4.6.links": "its links.self is relative, its jsonapi.version 1.0",
    "4.7.members": "the members of a collection document",
    "4.7.url": "its links.self is the absolute URL of the request, encoded",
    "4.8.fields": "fields[type] restricts attributes; id, type and links stay",
    "4.8.full_name": "full_name is right when the names are not asked for",
    "4.8.include": "include adds resources and identifiers",
    "4.8.combined": "both can be combined in one request",
    "4.8.no_include": "without include there are no relationships",
    "4.8.patch": "include works on PATCH",
    "5": "no credentials are sent",
    "9.version": "every response has jsonapi.version 1.0",
    "9.openapi": "the description is OpenAPI 3.0.0, shown by Swagger UI 3.45.0",
    # Decisions where the description is silent.
    "d.error_document": "the shape of error documents, also of 404, 405 and malformed requests",
    "d.malformed": "no JSON, or no resource object: 400 at its place",
    "d.type": "another type than the path's: 409",
    "d.attributes": "attributes that are wrong in any way: 422, all at once",
    "d.id_in_body": "an id in a body is discarded, whatever it is",
    "d.lengths": "1 to 255 characters, e-mail at most 254, kept as sent",
    "d.uniqueness": "neither e-mail nor serial is unique",
    "d.email_null": "no e-mail is null, and null clears it",
    "d.no_such": "no such resource, or no id at all: 404",
    "d.identifiers": "identifiers: string or integer, 409 and 404 at their places, nothing changed",
    "d.moves": "an owned computer moves",
    "d.replaces": "the list of computers is replaced, repeated identifiers count once",
    "d.relationships_in_patch": "relationships are answered when asked for or changed",
    "d.relationships_on_post": "relationships are honoured on POST, and the owner of a computer",
    "d.bad_parameters": "unknown parameters, types, fields and includes: 400",
    "d.fields_and_include": "fields limit attributes, include keeps its relationship",
    "d.names_in_fields": "attributes, links, id, and person for owner",
    "d.nested_include": "three steps; once in a document; not included if primary",
    "d.include_nothing": "an include that finds nothing is an empty array",
    "d.media_type": "415 and 406 as JSON:API says",
    "d.collection_self": "the URL as requested, safe, absolute, host from the setting",
    "d.no_page": "the whole collection, streamed",
    "d.body_limits": "413 over a mebibyte, 408 for what does not arrive",
    "d.deleting": "204; the computers of a deleted person become unowned",
    # What JSON:API has beyond the service description.
    "i.linkage_routes": "linkage is read, replaced, added to and removed from",
    "i.related_routes": "what a relationship leads to is read like a resource or a collection",
    "i.paging": "pages by number and by cursor, with links to the others",
    "i.sorting": "any attribute, of the owner too, both directions, several keys, total by id",
    "i.filtering": "conditions by name and operator, and their combinations in JSON",
    "i.include_pages": "an included to-many relationship can be bounded",
    "i.conditional": "entity tags, 304 and 412",
    "i.negotiation": "415, 406 and Vary",
    "i.operations": "Atomic Operations",
    # Promises about the way it is built.
    "r.batching": "requests in flight share round trips, and read what was written before",
    "r.queries": "one query a step of the include path",
    "r.new_type": "a new type is one declaration",
}


def covered() -> set[str]:
    """Return the statements that the `covers` markers of all tests name."""
    return {
        argument.value
        for path in TESTS.glob("**/test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.covers"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_every_statement_is_covered_by_a_test() -> None:
    assert STATEMENTS.keys() - covered() == set()


def test_every_covered_statement_is_listed() -> None:
    assert covered() - STATEMENTS.keys() == set()
