"""Every statement of the service description and every design decision is covered by a test.

Tests name the statements that they cover with `@pytest.mark.covers`.
"""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent

STATEMENTS = {
    # The service description, by section.
    "1.1": "persons and computers are stored and served as JSON:API documents",
    "1.2": "request and response bodies are application/vnd.api+json",
    "1.3": "a GET may carry a Content-Type",
    "1.4": "resources can be created, read individually and as collections, and updated",
    "1.5": "clients can restrict attributes and include related resources",
    "1.6": "OpenAPI 3.0.0 and Swagger UI are below /api/swagger, with tags Person and Computer",
    "2.1.id": "the id of a person is an integer that the service generates, a string in documents",
    "2.1.first_name": "first_name is a required string",
    "2.1.last_name": "last_name is a required string",
    "2.1.full_name": "full_name is computed from both and read-only",
    "2.1.email": "email is optional and has the format of an e-mail address",
    "2.1.computers": "computers is a to-many relationship to computer",
    "2.1.password": "a password is stored and never returned",
    "2.2.id": "the id of a computer follows the same rules",
    "2.2.serial": "serial is a required string",
    "2.2.owner": "owner is a to-one relationship, stored in the field person of the computer",
    "2.2.unowned": "a computer can be created without an owner",
    "2.2.owner_from_person": "the owner can be set through the computers of the person",
    "2.3": "a resource object has type, id, attributes, links.self, and relationships if included",
    "2.4": "all fields can be selected; a computer also has id, person and owner",
    "2.5.get": "a GET returns first_name, last_name, full_name and email",
    "2.5.post": "a POST returns first_name, last_name and email",
    "2.5.computer": "a computer returns only its serial",
    "4.1": "the routes and their methods",
    "4.2.body": "a POST takes data with type and attributes",
    "4.2.1": "a creation returns 201 and the resource with its id",
    "4.2.2": "its links.self is the relative path of the new resource",
    "4.2.3": "a client-generated id is ignored",
    "4.2.4": "full_name is not accepted as input",
    "4.3": "a single resource returns 200 and its relative path in links.self",
    "4.4.id": "the path identifies the resource, the id in the body is ignored",
    "4.4.identifiers": "relationships.computers.data is an array of identifiers",
    "4.4.both": "attributes and relationships can change in one request",
    "4.4.include": "include=computers adds the linked computers",
    "4.4.status": "an update returns 200, attributes and computers",
    "4.4.attributes": "attributes missing from the request keep their values",
    "4.5": "a collection returns 200 and meta.count",
    "4.6.members": "the members of a single-resource document",
    "4.6.links": "its links.self is relative, its jsonapi.version is 1.0",
    "4.7.members": "the members of a collection document",
    "4.7.url": "its links.self is the absolute URL of the request, percent-encoded",
    "4.8.fields": "fields[type] restricts attributes; id, type and links are always returned",
    "4.8.full_name": "full_name is correct when first_name and last_name are not requested",
    "4.8.include": "include adds resources and linkage",
    "4.8.combined": "fields and include can be combined",
    "4.8.no_include": "without include there are no relationships",
    "4.8.patch": "include works on PATCH",
    "5": "no credentials are required",
    "9.version": "every response has jsonapi.version 1.0",
    "9.openapi": "the description is OpenAPI 3.0.0, displayed by Swagger UI 3.45.0",
    # Decisions where the description is silent.
    "d.error_document": "the format of error documents, including 404, 405 and malformed requests",
    "d.malformed": "malformed JSON or an invalid resource object: 400 with a pointer",
    "d.type": "a type that does not match the path: 409",
    "d.attributes": "invalid attributes: 422, all errors at once",
    "d.id_in_body": "any id in a body is ignored",
    "d.lengths": "1 to 255 characters, e-mail at most 254, stored unchanged",
    "d.uniqueness": "neither e-mail nor serial has to be unique",
    "d.email_null": "a missing e-mail is null, and null clears it",
    "d.no_such": "a missing resource or an invalid id: 404",
    "d.identifiers": "ids as strings or integers; 409 and 404 with pointers, nothing changes",
    "d.moves": "an owned computer moves to its new owner",
    "d.replaces": "the list of computers is replaced; repeated identifiers count once",
    "d.relationships_in_patch": "relationships are returned if included or changed",
    "d.relationships_on_post": "relationships can be set on POST, and the owner of a computer",
    "d.bad_parameters": "unknown parameters, types, fields and include paths: 400",
    "d.fields_and_include": "fields restricts attributes, include always shows its relationship",
    "d.names_in_fields": "attributes, relationships, id, and person for owner",
    "d.nested_include": "at most three steps; each resource once, primary resources not included",
    "d.include_nothing": "an include without results is an empty array",
    "d.media_type": "415 and 406 as JSON:API specifies",
    "d.collection_self": "the requested URL, absolute and percent-encoded; its host can be set",
    "d.no_page": "without page, the complete collection is streamed",
    "d.body_limits": "413 above a mebibyte, 408 for a request that arrives too slowly",
    "d.authorship": "who changed a resource, and when, is sent only if fields names it",
    "d.deleting": "204; the computers of a deleted person become unowned",
    # Features of JSON:API beyond the service description.
    "i.linkage_routes": "relationships can be read, replaced, extended and reduced",
    "i.related_routes": "related resources are read like a resource or a collection",
    "i.paging": "numbered pages and cursor pages, with pagination links",
    "i.sorting": "by any attribute, also of the owner; several keys, both directions, ties by id",
    "i.filtering": "conditions by name and operator, and their combinations in JSON",
    "i.include_pages": "an included to-many relationship can be paged",
    "i.conditional": "ETags, 304 and 412",
    "i.negotiation": "415, 406 and Vary",
    "i.operations": "Atomic Operations",
    # Properties of the implementation.
    "r.batching": "concurrent requests share round trips, and read all preceding writes",
    "r.queries": "one query per step of an include path",
    "r.new_type": "a new type is a single declaration",
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
