"""Every normative statement of JSON:API 1.0 has tests that hold it, or a reason why it is not ours.

The ids and levels are those that the authors of JSON:API gave to its statements; what a statement
says is told here in fewer words. An id that the authors gave twice is here twice.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# An entry is a line `LEVEL id: what it says`. Below it are the tests that fail when the service
# does otherwise, and after a dash what of the statement does not apply to the service, and why.
STATEMENTS = """
# Content Negotiation

MUST request-content-type: who sends a document declares it as JSON:API without parameters
    tests/api/test_errors.py::test_a_body_of_another_media_type_is_rejected
    - binds clients; the service refuses what they may not send
MUST request-accept: an Accept that names JSON:API names it once without parameters
    tests/api/test_negotiation.py::test_every_read_negotiates
    - binds clients; the service refuses what they may not send
MUST response-ignore-parameters: who reads an answer ignores parameters of its media type
    - binds clients
MUST response-content-type: answers are declared as JSON:API without parameters
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_change_is_answered_with_a_document_of_jsonapi_or_none
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
    - results of Atomic Operations carry `ext`, as that extension demands
MUST response-unsupported-media-type: 415 if JSON:API is sent with parameters
    tests/api/test_negotiation.py::test_a_body_of_another_media_type_changes_nothing_and_is_told_what_to_send
    tests/api/test_negotiation.py::test_parameters_of_json_api_are_refused_without_a_body_too
MUST response-not-acceptable: 406 if each JSON:API in Accept has parameters
    tests/api/test_negotiation.py::test_every_read_negotiates
    tests/api/test_negotiation.py::test_a_change_whose_answer_is_not_acceptable_is_not_made
    tests/api/test_negotiation.py::test_a_deletion_with_an_accept_that_is_refused_is_not_made

# Document Structure

MUST additional-members: objects have no members but those of the specification
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_change_is_answered_with_a_document_of_jsonapi_or_none
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
    - the cursor profile demands links.type in two errors, a member that 1.1 added
MUST ignore-additional-members: members that are not known are ignored
    tests/api/test_conformance.py::test_unknown_members_are_ignored_wherever_they_stand
    tests/api/test_creating.py::test_members_that_a_server_does_not_know_are_ignored
MUST json-object: the root of a document is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
    tests/api/test_errors.py::test_a_document_of_another_structure_is_rejected_with_a_pointer
MUST required-top-level: a document has data, errors or meta
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_change_is_answered_with_a_document_of_jsonapi_or_none
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MUST data-errors: data and errors are never together
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MAY optional-top-level: a document may have jsonapi, links and included
    tests/api/test_including.py::test_owners_are_included_with_their_computers
MUST data-included: included is there only beside data
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MAY top-level-links: top-level links may be self, related and those of pages
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_relationships.py::test_a_to_many_linkage_is_an_array_of_identifiers
MUST primary-data: one resource, identifier or null for one; an array of them for many
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST logical-collection: a collection is an array even if it holds one resource or none
    tests/api/test_sparse_fields.py::test_fields_keep_the_relationship_that_include_asks_for
    tests/api/test_reading.py::test_an_empty_collection_is_an_empty_array
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST resource-required-top-level: a resource object has id and type, a new one type alone
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_creating.py::test_a_created_person_is_answered_with_what_was_sent_and_an_id
MUST resource-optional-top-level: it may have attributes, relationships, links and meta
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST resource-id-type: every resource object has id and type
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST resource-id-type-types: id and type are strings
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST resource-unique: type and id are those of one resource
    tests/api/test_creating.py::test_fifty_creations_at_once_get_fifty_ids
    tests/api/test_deleting.py::test_the_id_of_a_deleted_resource_is_not_given_again
MUST resource-type-constraints: a type is spelled like a member name
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_new_type.py::test_a_wrong_declaration_fails_at_start
MUST resource-fields: attributes, relationships, type and id share one namespace
    tests/api/test_new_type.py::test_a_wrong_declaration_fails_at_start
    tests/api/test_conformance.py::test_no_field_can_be_named_type_or_id
MUST resource-attributes-key: attributes is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_errors.py::test_attributes_that_are_not_an_object_are_rejected
MUST resource-attributes-reserve-members: no object in attributes has relationships or links
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
SHOULD resource-attributes-reserve-members: foreign keys are not attributes
    tests/api/test_reading.py::test_one_computer_is_read_with_its_serial_alone
MUST resource-relationships-key: relationships is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_updating.py::test_malformed_relationships_are_told_by_their_place
MUST resource-relationships-object: a relationship has links, data or meta
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MAY resource-relationships-pagination: a to-many relationship may have links to pages
    tests/api/test_paging.py::test_an_included_relationship_can_be_bounded
    tests/api/test_paging.py::test_the_links_of_an_included_page_lead_through_the_whole_relationship
MUST resource-related-resource-link: a related link is valid even if nothing is related
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_related.py::test_the_owner_of_what_nobody_owns_is_null
MUST resource-related-resource-link-change: it stays when the relationship changes
    tests/api/test_conformance.py::test_links_of_a_relationship_stay_when_its_content_changes
MUST resource-linkage: linkage is null, [], an identifier or an array of them
    tests/api/test_including.py::test_owners_are_included_with_their_computers
    tests/api/test_including.py::test_computers_are_included_with_their_owners
MAY resource-links: links of a resource may hold self
    tests/api/test_reading.py::test_one_person_is_read_with_all_attributes
MUST resource-link-response: a GET of it answers with that resource
    tests/api/test_conformance.py::test_the_self_link_of_a_resource_leads_to_it
MUST resource-identifier-required-members: an identifier has type and id
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_relationships.py::test_what_is_no_array_of_identifiers_is_refused_at_its_place
MAY resource-identifier-optional-member: an identifier may have meta
    tests/api/test_conformance.py::test_unknown_members_are_ignored_wherever_they_stand
    - the service sends none, and ignores what is sent
MAY compound-documents-allow: an answer may hold related resources
    tests/api/test_including.py::test_one_resource_includes_as_a_collection_does
MUST compound-documents-top-level-included: they are an array of resources in included
    tests/api/test_including.py::test_owners_are_included_with_their_computers
    tests/api/test_including.py::test_an_include_that_finds_nothing_is_an_empty_array
MUST compound-documents-full-linkage: an identifier in the document names each of them
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_sparse_fields.py::test_fields_keep_the_relationship_that_include_asks_for
MUST compound-documents-duplicates: no resource is there twice
    tests/api/test_including.py::test_nested_includes_are_followed_and_primary_resources_not_repeated
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST meta-objects: meta is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MAY meta-object-members: meta may have any members
    tests/api/test_reading.py::test_a_collection_counts_its_resources_and_links_to_its_url
MUST top-level-links: links is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST top-level-links-members: a link is a string or an object with href
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MAY top-level-json-api-member: a document may tell about its implementation
    tests/api/test_reading.py::test_one_person_is_read_with_all_attributes
MUST json-api-type: jsonapi is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MAY json-api-version: it may have a version, which is a string
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MAY json-api-meta: it may have meta
    - a permission that the service does not use
MUST member-name-case: names are case-sensitive
    tests/api/test_conformance.py::test_a_name_in_another_case_is_another_name
MUST member-name-character: a name has a character at least
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_a_field_whose_name_is_no_member_name_fails_at_start
MUST member-name-allowed-characters-only: it has only characters that are allowed
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_a_field_whose_name_is_no_member_name_fails_at_start
MUST member-name-globally-allowed: it begins and ends with one that is allowed everywhere
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_a_field_whose_name_is_no_member_name_fails_at_start
RECOMMENDED member-name-url-safe: its characters are safe in a URL
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MAY member-name-allowed-characters: letters, digits and what is not ASCII are allowed everywhere
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
MUST member-name-reserved-characters: reserved characters are in no name
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_a_field_whose_name_is_no_member_name_fails_at_start

# Fetching Data

MUST fetch-url-support: self and related links can be fetched
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_conformance.py::test_the_self_link_of_a_collection_leads_to_the_same_document
    tests/api/test_conformance.py::test_the_self_link_of_a_resource_leads_to_it
MUST fetch-response-code: resources and collections are answered with 200
    tests/api/test_reading.py::test_one_person_is_read_with_all_attributes
    tests/api/test_reading.py::test_a_collection_counts_its_resources_and_links_to_its_url
MUST fetch-primary-data-collection: a collection is an array of resources, or []
    tests/api/test_conformance.py::test_every_link_leads_to_a_document_of_jsonapi
    tests/api/test_reading.py::test_an_empty_collection_is_an_empty_array
MUST fetch-primary-data-single: a resource is an object, or null where it may be absent
    tests/api/test_related.py::test_the_owner_of_what_nobody_owns_is_null
    tests/api/test_related.py::test_a_related_resource_is_read_like_any_other
MUST fetch-responses-404: a resource that does not exist is 404
    tests/api/test_reading.py::test_what_is_no_id_of_a_resource_is_not_found
    tests/api/test_related.py::test_what_is_related_to_a_resource_that_is_not_there_is_not_found
MAY fetch-responses-other-status-codes: other statuses are allowed
    tests/api/test_conditional.py::test_a_known_tag_gets_304
MAY fetch-responses-error-details: errors may be told in detail
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MUST fetch-responses-http-semantics: answers mean what HTTP says
    tests/api/test_reading.py::test_head_answers_as_get_without_a_body
    tests/api/test_conditional.py::test_a_known_tag_gets_304
    tests/api/test_errors.py::test_an_unsupported_method_gets_405_with_allow
MUST fetch-relationships: the self link of a relationship can be fetched
    tests/api/test_relationships.py::test_every_link_of_a_relationship_object_leads_to_what_it_says
MUST fetch-relationships-response-200: it is answered with 200
    tests/api/test_relationships.py::test_a_to_many_linkage_is_an_array_of_identifiers
    tests/api/test_relationships.py::test_a_to_one_linkage_is_an_identifier
MUST fetch-relationships-response-200-primary-data: its data are the linkage
    tests/api/test_relationships.py::test_every_link_of_a_relationship_object_leads_to_what_it_says
MAY fetch-relationships-response-200-self-related: it may have links self and related
    tests/api/test_relationships.py::test_a_to_one_linkage_is_an_identifier
MUST fetch-relationships-response-404: a relationship link that does not exist is 404
    tests/api/test_relationships.py::test_the_relationship_of_a_resource_that_is_not_there_is_not_found
    tests/api/test_relationships.py::test_a_relationship_that_the_type_does_not_have_is_not_found
MUST fetch-relationships-response-exists-empty: an empty relationship is 200
    tests/api/test_relationships.py::test_an_empty_relationship_is_there
MAY fetch-relationships-other-status-codes: other statuses are allowed
    tests/api/test_relationships.py::test_a_parameter_that_a_linkage_does_not_have_is_refused
MAY fetch-relationships-other-error-details: errors may be told in detail
    tests/api/test_relationships.py::test_a_parameter_that_a_linkage_does_not_have_is_refused
MUST fetch-relationships-http-semantics: answers mean what HTTP says
    tests/api/test_relationships.py::test_head_of_a_linkage_is_its_get_without_the_body
    tests/api/test_relationships.py::test_a_linkage_says_which_methods_it_takes
MAY inclusion-default: related resources may be included unasked
    tests/api/test_including.py::test_nothing_is_included_unasked
    - a permission that the service does not use
MAY inclusion-include-parameter: include may choose what is included
    tests/api/test_including.py::test_owners_are_included_with_their_computers
MUST inclusion-unrequested: nothing is included but what include asks for
    tests/api/test_including.py::test_computers_are_included_with_their_owners
    tests/api/test_including.py::test_the_empty_include_asks_for_no_relationship
MUST inclusion-include-parameter-value: include is paths between commas, of names between dots
    tests/api/test_including.py::test_three_steps_lead_from_a_computer_to_its_siblings_owner
    tests/api/test_new_type.py::test_a_third_type_is_served_like_the_others
MUST inclusion-bad-request: a path that cannot be included is 400
    tests/api/test_including.py::test_an_include_that_is_no_path_is_refused
MAY sparse-fieldsets-parameter: fields[type] may choose what is shown
    tests/api/test_sparse_fields.py::test_only_the_listed_attributes_are_returned
MUST sparse-fieldsets-parameter-value: its value is names between commas
    tests/api/test_sparse_fields.py::test_only_the_listed_attributes_are_returned
    tests/api/test_sparse_fields.py::test_unknown_fields_are_refused
MUST sparse-fieldsets-additional-fields: no other fields are shown
    tests/api/test_sparse_fields.py::test_only_the_listed_attributes_are_returned
    tests/api/test_sparse_fields.py::test_fields_restrict_the_included_resources_of_their_type
    - fields limits attributes; what include asks for is shown, as the description has it
MAY sorting-option: collections may be sorted
    tests/api/test_sorting.py::test_an_order_by_one_field_is_that_of_code_points_and_null_comes_first
MAY sorting-parameter: sort may choose the order
    tests/api/test_sorting.py::test_an_order_by_one_field_is_that_of_code_points_and_null_comes_first
MUST sorting-parameter-value: its value is the fields to sort by
    tests/api/test_sorting.py::test_an_order_by_one_field_is_that_of_code_points_and_null_comes_first
    tests/api/test_sorting.py::test_an_order_that_there_is_not_is_refused
MUST sorting-multiple-fields: there may be several, between commas
    tests/api/test_sorting.py::test_an_order_by_several_fields_is_total_by_id
SHOULD sorting-multiple-fields-order: the first of them weighs most
    tests/api/test_sorting.py::test_an_order_by_several_fields_is_total_by_id
MUST sorting-order: the order rises, and falls after a minus
    tests/api/test_sorting.py::test_an_order_by_one_field_is_that_of_code_points_and_null_comes_first
    tests/api/test_sorting.py::test_the_order_downwards_is_the_reverse_of_the_order_upwards
MUST sorting-not-supported: an order that is not supported is 400
    tests/api/test_sorting.py::test_an_order_that_there_is_not_is_refused
MUST sorting-specified-order: the top-level data are in the order that is asked for
    tests/api/test_sorting.py::test_an_order_by_one_field_is_that_of_code_points_and_null_comes_first
    tests/api/test_sorting.py::test_the_computers_of_one_owner_are_sorted_and_paged_alike
MAY sorting-default: there may be an order when none is asked for
    tests/api/test_reading.py::test_a_collection_larger_than_a_chunk_is_whole_and_in_order
MAY pagination: an answer may hold a page of a collection
    tests/api/test_paging.py::test_numbered_pages_are_counted_and_linked
    tests/api/test_paging.py::test_pages_by_cursor_are_linked_and_not_counted
MAY pagination-links: there may be links to other pages
    tests/api/test_paging.py::test_numbered_pages_are_counted_and_linked
    tests/api/test_paging.py::test_pages_by_cursor_are_linked_and_not_counted
MUST pagination-links-object: they are in the links of their collection
    tests/api/test_paging.py::test_pages_by_cursor_are_linked_and_not_counted
    tests/api/test_paging.py::test_an_included_relationship_can_be_bounded
MUST pagination-keys: they are first, last, prev and next
    tests/api/test_paging.py::test_numbered_pages_are_counted_and_linked
    tests/api/test_paging.py::test_pages_by_cursor_are_linked_and_not_counted
    tests/jsonapi/test_pagination.py::test_pages_by_cursor_are_linked_as_the_profile_says
MUST pagination-unavailable-link: one that is not there is null or left out
    tests/api/test_paging.py::test_numbered_pages_are_counted_and_linked
    tests/api/test_paging.py::test_the_total_can_be_left_out
    tests/jsonapi/test_pagination.py::test_pages_by_cursor_are_linked_as_the_profile_says
MUST pagination-order: next and prev follow the order of sort
    tests/api/test_sorting.py::test_an_order_by_one_field_is_that_of_code_points_and_null_comes_first
SHOULD pagination-page-parameter: page is the parameter of pages
    tests/api/test_paging.py::test_numbered_pages_are_counted_and_linked
    tests/api/test_paging.py::test_a_page_that_has_no_meaning_is_refused
SHOULD filtering: filter is the parameter of filters
    tests/api/test_filtering.py::test_each_operator_finds_of_each_field_what_python_finds

# Creating Resources

MAY create-support: resources may be created
    tests/api/test_creating.py::test_a_created_person_is_answered_with_what_was_sent_and_an_id
MAY modify-delete-support: resources may be updated and deleted
    tests/api/test_updating.py::test_attributes_that_are_sent_change_and_the_others_stay
    tests/api/test_deleting.py::test_a_deleted_computer_is_gone
MUST crud-atomic: a request succeeds as a whole or changes nothing
    tests/api/test_updating.py::test_computers_that_do_not_exist_are_told_each_and_nothing_changes
    tests/api/test_creating.py::test_a_creation_with_a_link_to_nothing_creates_nothing
    tests/api/test_relationships.py::test_members_that_do_not_exist_are_told_each_and_nothing_changes
MUST create-single-resource: a creation has one resource object
    tests/api/test_errors.py::test_a_document_of_another_structure_is_rejected_with_a_pointer
MUST create-type-member: it has a type
    tests/api/test_errors.py::test_a_document_of_another_structure_is_rejected_with_a_pointer
MUST create-relationships-member: a relationship in it is an object with data
    tests/api/test_conformance.py::test_a_relationship_of_a_creation_is_an_object_with_data
MAY create-accept-client-generated-ids: ids of clients may be accepted
    - ids are given by the service (2.1 of its description); those of clients are ignored (4.2.3)
MUST create-client-generated-ids-key: an id of a client is a UUID in id
    - ids of clients are ignored (4.2.3 of the description)
SHOULD create-client-generated-ids-uuid: it is a UUID as RFC 4122 describes
    - binds clients whose ids are accepted; here they are ignored (4.2.3 of the description)
MUST create-client-generated-ids-forbidden: 403 if ids of clients are not supported
    - the description says that such an id is ignored (4.2.3), not that the creation is refused
MUST create-responses-201-status: a creation is 201
    tests/api/test_creating.py::test_a_created_person_is_answered_with_what_was_sent_and_an_id
    tests/api/test_creating.py::test_a_created_computer_has_its_serial_alone_and_no_owner
SHOULD create-responses-201-location: Location tells where the new resource is
    tests/api/test_creating.py::test_the_location_is_the_self_link
MUST create-responses-201-document: the answer holds the new resource
    tests/api/test_creating.py::test_a_created_person_is_answered_with_what_was_sent_and_an_id
    tests/api/test_creating.py::test_a_created_computer_has_its_serial_alone_and_no_owner
MUST create-responses-201-self: its self link is the Location
    tests/api/test_creating.py::test_the_location_is_the_self_link
MUST create-responses-202: 202 if the creation is not done yet
    - every change is made before the answer
MUST create-responses-204: with an id of a client: 201 and the resource, or 204
    tests/api/test_creating.py::test_a_clients_id_is_discarded_whatever_it_is
MAY create-responses-403: a creation that is not supported may be 403
    - a permission that the service does not use: both types can be created
MAY create-responses-404-related: a link to a resource that does not exist is 404
    tests/api/test_creating.py::test_a_creation_with_a_link_to_nothing_creates_nothing
MUST create-responses-409-exists: an id of a client that is taken is 409
    - ids of clients are ignored (4.2.3 of the description), so none is taken
MUST create-responses-409-bad-type: a type that is not of the collection is 409
    tests/api/test_creating.py::test_another_type_than_the_paths_conflicts
SHOULD create-responses-409-error-details: the error says what conflicts
    tests/api/test_errors.py::test_an_error_has_the_request_id_a_pointer_and_a_detail
MAY create-responses-other-status: other statuses are allowed
    tests/api/test_creating.py::test_every_missing_attribute_is_told_at_once
MAY create-responses-other-error-details: errors may be told in detail
    tests/api/test_creating.py::test_every_missing_attribute_is_told_at_once
MUST create-http-semantics: answers mean what HTTP says
    tests/api/test_creating.py::test_the_location_is_the_self_link
    tests/api/test_errors.py::test_a_body_larger_than_a_mebibyte_is_rejected

# Updating Resources

MUST update-patch-resource: an update has one resource object
    tests/api/test_conformance.py::test_an_update_takes_a_single_resource_object_with_a_type
MUST update-patch-resource-members: it has type and id
    tests/api/test_conformance.py::test_an_update_takes_a_single_resource_object_with_a_type
    - the id is discarded (4.4 of the description), so nothing is asked of it
MAY update-resource-attributes: it may have any of the attributes
    tests/api/test_updating.py::test_attributes_that_are_sent_change_and_the_others_stay
MUST update-interpret-resource-attributes: attributes that are not sent stay
    tests/api/test_updating.py::test_attributes_that_are_sent_change_and_the_others_stay
MAY update-resource-relationships: it may have any of the relationships
    tests/api/test_updating.py::test_attributes_and_computers_change_in_one_request
    tests/api/test_updating.py::test_the_owner_of_a_computer_can_be_set_and_cleared_from_its_side
MUST update-interpret-resource-relationships: relationships that are not sent stay
    tests/api/test_conformance.py::test_relationships_that_are_not_sent_stay
MUST update-resource-relationship-value: a relationship in it is an object with data
    tests/api/test_updating.py::test_malformed_relationships_are_told_by_their_place
MAY update-resource-relationship-reject-full-replacement: a full replacement may be refused
    tests/api/test_updating.py::test_the_list_of_computers_replaces_the_one_before
    - a permission that the service does not use
MUST update-resource-relationship-reject-full-replacement-response: then with 403, whole
    - no full replacement is refused
MUST update-resource-202-status: 202 if the update is not done yet
    - every change is made before the answer
MUST update-resource-200-status: 200 if more changed than was asked for, as full_name does
    tests/api/test_updating.py::test_attributes_that_are_sent_change_and_the_others_stay
MUST update-resource-relationship-200-response: the answer is what a GET would be
    tests/api/test_updating.py::test_attributes_that_are_sent_change_and_the_others_stay
    tests/api/test_updating.py::test_an_update_of_nothing_answers_with_the_resource
    - relationships that were changed are shown as well (4.4 of the description)
MUST update-resource-200-meta: 200 if the answer is meta alone
    - an update is answered with the resource (4.4 of the description)
MUST update-resource-200-meta-representation: then without the resource
    - an update is answered with the resource (4.4 of the description)
MUST update-resource-204-status: what changed as asked for is 200 with a document, or 204
    tests/api/test_updating.py::test_attributes_and_computers_change_in_one_request
MUST update-resource-403-status: an update that is not supported is 403
    - every kind of update is supported; a value that an attribute does not take is 422
MUST update-resource-404-status: an update of what does not exist is 404
    tests/api/test_updating.py::test_a_person_that_does_not_exist_is_not_found
MUST update-resource-404-related: a link to a resource that does not exist is 404
    tests/api/test_updating.py::test_computers_that_do_not_exist_are_told_each_and_nothing_changes
MAY update-resource-409-status: other constraints may be 409
    - a permission that the service does not use: nothing but the id is unique
MUST update-resource-409-no-match: a type or id that is not that of the path is 409
    tests/api/test_updating.py::test_what_is_wrong_with_an_update_is_told_and_nothing_changes
    tests/api/test_creating.py::test_of_a_resource_of_another_type_nothing_but_the_type_is_told
    - the type alone: the id is discarded (4.4 of the description)
SHOULD update-resource-409-details: the error says what conflicts
    tests/api/test_updating.py::test_an_identifier_of_another_type_conflicts_at_its_place
SHOULD update-resource-409-details: the error says where the conflict is
    tests/api/test_updating.py::test_what_is_wrong_with_an_update_is_told_and_nothing_changes
MAY update-resource-other-status: other statuses are allowed
    tests/api/test_updating.py::test_what_is_wrong_with_an_update_is_told_and_nothing_changes
MAY update-resource-other-status: errors may be told in detail
    tests/api/test_updating.py::test_what_is_wrong_with_an_update_is_told_and_nothing_changes
MAY update-resource-other-semantics: errors may be told in detail, whatever the status
    tests/api/test_updating.py::test_malformed_relationships_are_told_by_their_place
MUST update-resource-http-semantics: answers mean what HTTP says
    tests/api/test_conditional.py::test_a_write_with_an_outdated_tag_fails
    tests/api/test_errors.py::test_an_unsupported_method_gets_405_with_allow

# Updating Relationships

MUST respond-patch-to-one-relationship-link: a to-one linkage takes PATCH
    tests/api/test_relationships.py::test_the_owner_is_set_and_cleared_by_its_linkage
MUST patch-to-one-data-member: with an identifier or null
    tests/api/test_relationships.py::test_what_is_neither_identifier_nor_null_is_refused_at_its_place
    tests/api/test_relationships.py::test_the_owner_is_set_and_cleared_by_its_linkage
MUST patch-to-one-response: what succeeds is answered so
    tests/api/test_relationships.py::test_the_owner_is_set_and_cleared_by_its_linkage
MUST respond-patch-post-delete-to-many-relationship-link: to-many takes PATCH, POST, DELETE
    tests/api/test_relationships.py::test_patch_replaces_every_member
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
    tests/api/test_relationships.py::test_delete_removes_members_and_lets_the_others_be
MUST patch-post-delete-to-many-data-member: with an array of identifiers, or []
    tests/api/test_relationships.py::test_what_is_no_array_of_identifiers_is_refused_at_its_place
MUST patch-to-many-complete-replace: PATCH replaces every member, or fails
    tests/api/test_relationships.py::test_patch_replaces_every_member
    tests/api/test_relationships.py::test_members_that_do_not_exist_are_told_each_and_nothing_changes
MUST post-to-many-add: POST adds members that are not there
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST post-to-many-add-again: those that are there are not added again
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST post-to-many-add-again: nor are those that are sent twice
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST post-to-many-response: what can be added, or is there, is a success
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST delete-to-many: DELETE removes the members that are sent
    tests/api/test_relationships.py::test_delete_removes_members_and_lets_the_others_be
MUST delete-to-many: or it is 403
    tests/api/test_relationships.py::test_delete_removes_members_and_lets_the_others_be
    - no removal is refused with 403
MUST delete-to-many-success: what can be removed, or is not there, is a success
    tests/api/test_relationships.py::test_delete_removes_members_and_lets_the_others_be
MUST updating-relationship-202-status: 202 if the update is not done yet
    - every change is made before the answer
MUST updating-relationship-204-status: 204 if the relationship is then as was sent
    tests/api/test_relationships.py::test_patch_replaces_every_member
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
    tests/api/test_relationships.py::test_delete_removes_members_and_lets_the_others_be
    tests/api/test_relationships.py::test_the_owner_is_set_and_cleared_by_its_linkage
MUST updating-relationship-200-status: 200 if the relationship changed in other ways too
    - a relationship changes as the request says, and in no other way
MUST updating-relationship-200-response: then with the relationship
    - a relationship changes as the request says, and in no other way
MUST updating-relationship-200-meta: 200 if the answer is meta alone
    - a change of linkage is answered with 204
MUST updating-relationship-200-meta-content: then without the relationship
    - a change of linkage is answered with 204
MUST updating-relationship-403-status: an update that is not supported is 403
    - every kind of update is supported; POST and DELETE are none of a to-one linkage
MAY updating-relationship-other-status: other statuses are allowed
    tests/api/test_relationships.py::test_members_of_another_type_conflict_at_their_places
MAY updating-relationship-other-details: errors may be told in detail
    tests/api/test_relationships.py::test_members_of_another_type_conflict_at_their_places
MUST update-relationship-http-semantics: answers mean what HTTP says
    tests/api/test_relationships.py::test_a_linkage_says_which_methods_it_takes
    tests/api/test_conditional.py::test_a_write_with_an_outdated_tag_fails

# Deleting Resources

MUST delete-202-status: 202 if the deletion is not done yet
    - every change is made before the answer
MUST delete-204-status: a deletion without content is 204
    tests/api/test_deleting.py::test_a_deleted_computer_is_gone
    tests/api/test_deleting.py::test_the_computers_of_a_deleted_person_become_unowned
MUST delete-200-status: 200 if the answer is meta alone
    - a deletion is answered with 204
SHOULD delete-404-status: a deletion of what does not exist is 404
    tests/api/test_deleting.py::test_what_is_not_there_cannot_be_deleted
MAY deleting-other-status: other statuses are allowed
    tests/api/test_deleting.py::test_what_is_refused_is_not_deleted
MAY deleting-other-details: errors may be told in detail
    tests/api/test_deleting.py::test_what_is_refused_is_not_deleted
MUST deleting-http-semantics: answers mean what HTTP says
    tests/api/test_deleting.py::test_a_deleted_computer_is_gone
    tests/api/test_deleting.py::test_a_collection_cannot_be_deleted

# Query Parameters

MUST query-parameters-non-alpha: parameters of one's own have a character that is not a-z
    tests/api/test_conformance.py::test_there_is_no_parameter_but_those_of_the_specification
RECOMMENDED query-parameters-under-camel: a hyphen, an underscore or a capital
    tests/api/test_conformance.py::test_there_is_no_parameter_but_those_of_the_specification
RECOMMENDED query-parameters-bad-request: a parameter that is unknown is 400
    tests/api/test_conformance.py::test_a_parameter_that_is_unknown_is_refused_on_every_route

# Errors

MAY error-stop-processing: a server may stop at the first problem, or go on
    tests/api/test_creating.py::test_errors_of_different_kinds_are_told_together_under_400
SHOULD error-general: of several problems, the status is the one that fits them all
    tests/api/test_creating.py::test_errors_of_different_kinds_are_told_together_under_400
    tests/jsonapi/test_errors.py::test_errors_of_one_status_keep_it_and_others_are_400
MUST error-object-key: errors are an array in errors
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
MAY error-object-members: the members that an error may have, a title that does not change
    tests/api/test_errors.py::test_an_error_has_the_request_id_a_pointer_and_a_detail
    tests/api/test_conformance.py::test_every_refusal_is_a_document_of_jsonapi
    tests/api/test_conformance.py::test_a_title_is_the_same_in_every_occurrence_of_a_problem
"""

LEVELS = {"MUST": 126, "SHOULD": 11, "RECOMMENDED": 3, "MAY": 44}
"""How many statements of each level the authors of JSON:API counted."""

IDS = 178
"""How many ids they have."""


@dataclass
class Statement:
    """One entry of the table."""

    level: str
    id: str
    says: str
    tests: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def parsed() -> list[Statement]:
    """Return the entries of the table."""
    found: list[Statement] = []
    for line in filter(None, STATEMENTS.splitlines()):
        if line.startswith("    - "):
            found[-1].reasons.append(line[6:])
        elif line.startswith("    "):
            found[-1].tests.append(line[4:])
        elif not line.startswith("# "):
            level, name, says = line.split(" ", 2)
            found.append(Statement(level, name.removesuffix(":"), says))
    return found


def functions(path: str) -> set[str]:
    """Return the names of the tests in a file."""
    return {
        node.name
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


TABLE = parsed()
NAMED = sorted({test for one in TABLE for test in one.tests})


def test_every_statement_is_there() -> None:
    assert Counter(one.level for one in TABLE) == LEVELS
    assert len({one.id for one in TABLE}) == IDS


def test_every_statement_has_tests_or_a_reason() -> None:
    assert [one.id for one in TABLE if not one.tests and not one.reasons] == []


@pytest.mark.parametrize("path", sorted({test.partition("::")[0] for test in NAMED}))
def test_every_test_of_a_statement_is_there(path: str) -> None:
    named = {name for file, _, name in (test.partition("::") for test in NAMED) if file == path}
    assert named - functions(path) == set()
    assert all(name.startswith("test_") for name in named)
