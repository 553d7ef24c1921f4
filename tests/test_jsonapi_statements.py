"""Every normative statement of JSON:API 1.0 has tests, or a reason why it does not apply.

Ids and levels are those of the JSON:API authors, who use some ids more than once; the statements
are summarized.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# An entry is a line `LEVEL id: summary`, followed by the tests that fail if the service violates
# the statement and, after a dash, the part that does not apply to the service, and why.
STATEMENTS = """
# Content Negotiation

MUST request-content-type: clients send Content-Type without media type parameters
    tests/api/test_errors.py::test_a_body_of_another_media_type_is_rejected
    - applies to clients; the service rejects requests that violate it
MUST request-accept: clients list the media type in Accept at least once without parameters
    tests/api/test_negotiation.py::test_accept_is_negotiated_on_every_read
    - applies to clients; the service rejects requests that violate it
MUST response-ignore-parameters: clients ignore media type parameters of responses
    - applies to clients
MUST response-content-type: responses have Content-Type without media type parameters
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_write_returns_a_valid_document_or_no_content
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
    - results of Atomic Operations have the parameter `ext`, which that extension requires
MUST response-unsupported-media-type: a Content-Type with parameters is 415
    tests/api/test_negotiation.py::test_an_unsupported_media_type_changes_nothing_and_the_error_names_the_expected_one
    tests/api/test_negotiation.py::test_media_type_parameters_are_rejected_even_without_a_body
MUST response-not-acceptable: 406 if every JSON:API media type in Accept has parameters
    tests/api/test_negotiation.py::test_accept_is_negotiated_on_every_read
    tests/api/test_negotiation.py::test_a_write_with_an_unacceptable_accept_changes_nothing
    tests/api/test_negotiation.py::test_a_deletion_with_an_unacceptable_accept_changes_nothing

# Document Structure

MUST additional-members: objects contain no members that the specification does not define
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_write_returns_a_valid_document_or_no_content
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
    - the cursor profile requires links.type in two errors, a member added in JSON:API 1.1
MUST ignore-additional-members: unknown members are ignored
    tests/api/test_conformance.py::test_unknown_members_are_ignored_at_every_level
    tests/api/test_creating.py::test_unknown_members_of_the_document_are_ignored
MUST json-object: the root of a document is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
    tests/api/test_errors.py::test_a_document_of_another_structure_is_rejected_with_a_pointer
MUST required-top-level: a document contains data, errors or meta
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_write_returns_a_valid_document_or_no_content
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MUST data-errors: data and errors do not coexist
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MAY optional-top-level: a document may contain jsonapi, links and included
    tests/api/test_including.py::test_a_collection_of_computers_includes_their_owners
MUST data-included: without data there is no included
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MAY top-level-links: top-level links may contain self, related and pagination links
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_relationships.py::test_to_many_linkage_is_an_array_of_identifiers
MUST primary-data: primary data is a resource, an identifier or null; or an array of either
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST logical-collection: a collection is an array even with one resource or none
    tests/api/test_sparse_fields.py::test_fields_do_not_hide_an_included_relationship
    tests/api/test_reading.py::test_an_empty_collection_is_an_empty_array
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST resource-required-top-level: a resource object has type and id; a new one may lack the id
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_creating.py::test_creating_a_person_returns_its_attributes_and_id
MUST resource-optional-top-level: it may have attributes, relationships, links and meta
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_authorship.py::test_the_authorship_is_sent_only_if_fields_names_it
MUST resource-id-type: every resource object has id and type
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST resource-id-type-types: id and type are strings
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST resource-unique: type and id identify a single resource
    tests/api/test_creating.py::test_concurrent_creations_get_distinct_ids
    tests/api/test_deleting.py::test_the_id_of_a_deleted_resource_is_not_reused
MUST resource-type-constraints: a type follows the rules of member names
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_new_type.py::test_an_invalid_declaration_fails_at_start
MUST resource-fields: attributes, relationships, type and id share a namespace
    tests/api/test_new_type.py::test_an_invalid_declaration_fails_at_start
    tests/api/test_conformance.py::test_a_field_named_type_or_id_fails_at_start
MUST resource-attributes-key: attributes is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_errors.py::test_attributes_that_are_not_an_object_are_rejected
MUST resource-attributes-reserve-members: objects in attributes have no relationships or links
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
SHOULD resource-attributes-reserve-members: foreign keys are not attributes
    tests/api/test_reading.py::test_a_computer_has_only_its_serial
MUST resource-relationships-key: relationships is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_updating.py::test_a_malformed_relationship_is_reported_with_its_pointer
MUST resource-relationships-object: a relationship has links, data or meta
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MAY resource-relationships-pagination: a to-many relationship may have pagination links
    tests/api/test_paging.py::test_an_included_relationship_can_be_paged
    tests/api/test_paging.py::test_the_next_links_of_an_included_page_visit_the_whole_relationship
MUST resource-related-resource-link: a related link is valid even if nothing is related
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_related.py::test_the_owner_of_an_unowned_computer_is_null
MUST resource-related-resource-link-change: it does not change with the relationship
    tests/api/test_conformance.py::test_relationship_links_do_not_change_with_the_linkage
MUST resource-linkage: linkage is null, [], an identifier or an array of identifiers
    tests/api/test_including.py::test_a_collection_of_computers_includes_their_owners
    tests/api/test_including.py::test_a_collection_of_persons_includes_their_computers
MAY resource-links: the links of a resource may contain self
    tests/api/test_reading.py::test_a_person_has_all_attributes
MUST resource-link-response: GET on the self link returns that resource
    tests/api/test_conformance.py::test_the_self_link_of_a_resource_returns_that_resource
MUST resource-identifier-required-members: an identifier has type and id
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_relationships.py::test_malformed_to_many_linkage_is_reported_with_its_pointer
MAY resource-identifier-optional-member: an identifier may have meta
    tests/api/test_conformance.py::test_unknown_members_are_ignored_at_every_level
    - the service sends none, and ignores those in requests
MAY compound-documents-allow: a response may contain related resources
    tests/api/test_including.py::test_a_single_resource_includes_like_a_collection
MUST compound-documents-top-level-included: included is an array of resources
    tests/api/test_including.py::test_a_collection_of_computers_includes_their_owners
    tests/api/test_including.py::test_an_include_without_results_is_an_empty_array
MUST compound-documents-full-linkage: every included resource is identified in the document
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_sparse_fields.py::test_fields_do_not_hide_an_included_relationship
MUST compound-documents-duplicates: no resource appears more than once
    tests/api/test_including.py::test_nested_includes_do_not_repeat_primary_resources
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST meta-objects: meta is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MAY meta-object-members: meta may have any members
    tests/api/test_reading.py::test_a_collection_has_a_count_and_its_url_as_self_link
MUST top-level-links: links is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST top-level-links-members: a link is a string or an object with href
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MAY top-level-json-api-member: a document may describe its implementation
    tests/api/test_reading.py::test_a_person_has_all_attributes
MUST json-api-type: jsonapi is an object
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MAY json-api-version: it may have a version, which is a string
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MAY json-api-meta: it may have meta
    - the service does not use this option
MUST member-name-case: member names are case-sensitive
    tests/api/test_conformance.py::test_member_names_are_case_sensitive
MUST member-name-character: a member name has at least one character
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_a_field_with_an_invalid_member_name_fails_at_start
MUST member-name-allowed-characters-only: it contains only allowed characters
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_a_field_with_an_invalid_member_name_fails_at_start
MUST member-name-globally-allowed: it starts and ends with a globally allowed character
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_a_field_with_an_invalid_member_name_fails_at_start
RECOMMENDED member-name-url-safe: its characters are safe in a URL
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MAY member-name-allowed-characters: letters, digits and non-ASCII characters are globally allowed
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
MUST member-name-reserved-characters: it contains no reserved characters
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_a_field_with_an_invalid_member_name_fails_at_start

# Fetching Data

MUST fetch-url-support: self and related links can be fetched
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_conformance.py::test_the_self_link_of_a_collection_returns_the_same_document
    tests/api/test_conformance.py::test_the_self_link_of_a_resource_returns_that_resource
MUST fetch-response-code: a fetched resource or collection is 200
    tests/api/test_reading.py::test_a_person_has_all_attributes
    tests/api/test_reading.py::test_a_collection_has_a_count_and_its_url_as_self_link
MUST fetch-primary-data-collection: a collection is an array of resources, or []
    tests/api/test_conformance.py::test_every_link_leads_to_a_valid_document
    tests/api/test_reading.py::test_an_empty_collection_is_an_empty_array
MUST fetch-primary-data-single: a resource is an object, or null where it may be missing
    tests/api/test_related.py::test_the_owner_of_an_unowned_computer_is_null
    tests/api/test_related.py::test_a_related_resource_is_read_like_a_resource
MUST fetch-responses-404: a missing resource is 404
    tests/api/test_reading.py::test_an_invalid_or_unknown_id_is_not_found
    tests/api/test_related.py::test_the_related_resources_of_a_missing_resource_are_not_found
MAY fetch-responses-other-status-codes: other statuses are allowed
    tests/api/test_conditional.py::test_a_known_tag_gets_304
MAY fetch-responses-error-details: errors may have details
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MUST fetch-responses-http-semantics: responses follow the semantics of HTTP
    tests/api/test_reading.py::test_head_responds_like_get_without_a_body
    tests/api/test_conditional.py::test_a_known_tag_gets_304
    tests/api/test_errors.py::test_an_unsupported_method_gets_405_with_allow
MUST fetch-relationships: the self link of a relationship can be fetched
    tests/api/test_relationships.py::test_the_links_of_a_relationship_object_lead_to_its_linkage_and_resources
MUST fetch-relationships-response-200: it is 200
    tests/api/test_relationships.py::test_to_many_linkage_is_an_array_of_identifiers
    tests/api/test_relationships.py::test_to_one_linkage_is_an_identifier
MUST fetch-relationships-response-200-primary-data: its primary data is the linkage
    tests/api/test_relationships.py::test_the_links_of_a_relationship_object_lead_to_its_linkage_and_resources
MAY fetch-relationships-response-200-self-related: it may have the links self and related
    tests/api/test_relationships.py::test_to_one_linkage_is_an_identifier
MUST fetch-relationships-response-404: an unknown relationship link is 404
    tests/api/test_relationships.py::test_the_relationship_of_a_missing_resource_is_not_found
    tests/api/test_relationships.py::test_an_unknown_relationship_is_not_found
MUST fetch-relationships-response-exists-empty: an empty relationship is 200
    tests/api/test_relationships.py::test_an_empty_relationship_can_be_read
MAY fetch-relationships-other-status-codes: other statuses are allowed
    tests/api/test_relationships.py::test_a_parameter_that_does_not_apply_to_linkage_is_rejected
MAY fetch-relationships-other-error-details: errors may have details
    tests/api/test_relationships.py::test_a_parameter_that_does_not_apply_to_linkage_is_rejected
MUST fetch-relationships-http-semantics: responses follow the semantics of HTTP
    tests/api/test_relationships.py::test_head_of_a_relationship_responds_like_get
    tests/api/test_relationships.py::test_a_relationship_allows_only_the_methods_of_its_kind
MAY inclusion-default: related resources may be included by default
    tests/api/test_including.py::test_nothing_is_included_by_default
    - the service does not use this option
MAY inclusion-include-parameter: include may select the included resources
    tests/api/test_including.py::test_a_collection_of_computers_includes_their_owners
MUST inclusion-unrequested: only the resources requested with include are included
    tests/api/test_including.py::test_a_collection_of_persons_includes_their_computers
    tests/api/test_including.py::test_an_empty_include_adds_no_relationships
MUST inclusion-include-parameter-value: include is a comma-separated list of dot-separated paths
    tests/api/test_including.py::test_an_include_path_may_have_three_steps
    tests/api/test_new_type.py::test_a_new_type_is_served
MUST inclusion-bad-request: an unsupported path is 400
    tests/api/test_including.py::test_an_invalid_include_path_is_rejected
MAY sparse-fieldsets-parameter: fields[type] may select the fields
    tests/api/test_sparse_fields.py::test_only_the_listed_attributes_are_returned
MUST sparse-fieldsets-parameter-value: its value is a comma-separated list of names
    tests/api/test_sparse_fields.py::test_only_the_listed_attributes_are_returned
    tests/api/test_sparse_fields.py::test_unknown_fields_are_rejected
MUST sparse-fieldsets-additional-fields: no other fields are returned
    tests/api/test_sparse_fields.py::test_only_the_listed_attributes_are_returned
    tests/api/test_sparse_fields.py::test_fields_restrict_included_resources_of_that_type
    - fields restricts attributes; included relationships are always shown (4.8)
MAY sorting-option: collections may be sorted
    tests/api/test_sorting.py::test_sorting_by_a_field_uses_code_point_order_with_nulls_first
MAY sorting-parameter: sort may select the sort order
    tests/api/test_sorting.py::test_sorting_by_a_field_uses_code_point_order_with_nulls_first
MUST sorting-parameter-value: its value is a list of sort fields
    tests/api/test_sorting.py::test_sorting_by_a_field_uses_code_point_order_with_nulls_first
    tests/api/test_sorting.py::test_an_invalid_sort_is_rejected
MUST sorting-multiple-fields: several sort fields are separated by commas
    tests/api/test_sorting.py::test_sorting_by_several_fields_breaks_ties_by_id
SHOULD sorting-multiple-fields-order: sort fields apply in the order given
    tests/api/test_sorting.py::test_sorting_by_several_fields_breaks_ties_by_id
MUST sorting-order: the order is ascending, or descending after a minus
    tests/api/test_sorting.py::test_sorting_by_a_field_uses_code_point_order_with_nulls_first
    tests/api/test_sorting.py::test_descending_order_is_the_reverse_of_ascending_order
MUST sorting-not-supported: an unsupported sort is 400
    tests/api/test_sorting.py::test_an_invalid_sort_is_rejected
MUST sorting-specified-order: top-level data is in the requested order
    tests/api/test_sorting.py::test_sorting_by_a_field_uses_code_point_order_with_nulls_first
    tests/api/test_sorting.py::test_the_computers_of_a_person_can_be_sorted_and_paged
MAY sorting-default: there may be a default order
    tests/api/test_reading.py::test_a_collection_larger_than_a_chunk_is_complete_and_ordered_by_id
MAY pagination: a response may contain a page of a collection
    tests/api/test_paging.py::test_numbered_pages_have_a_total_and_links
    tests/api/test_paging.py::test_cursor_pages_have_links_and_no_total
MAY pagination-links: there may be pagination links
    tests/api/test_paging.py::test_numbered_pages_have_a_total_and_links
    tests/api/test_paging.py::test_cursor_pages_have_links_and_no_total
MUST pagination-links-object: they are in the links object of the collection
    tests/api/test_paging.py::test_cursor_pages_have_links_and_no_total
    tests/api/test_paging.py::test_an_included_relationship_can_be_paged
MUST pagination-keys: their names are first, last, prev and next
    tests/api/test_paging.py::test_numbered_pages_have_a_total_and_links
    tests/api/test_paging.py::test_cursor_pages_have_links_and_no_total
    tests/jsonapi/test_pagination.py::test_cursor_pages_have_the_links_of_the_profile
MUST pagination-unavailable-link: an unavailable one is null or omitted
    tests/api/test_paging.py::test_numbered_pages_have_a_total_and_links
    tests/api/test_paging.py::test_the_total_can_be_omitted
    tests/jsonapi/test_pagination.py::test_cursor_pages_have_the_links_of_the_profile
MUST pagination-order: next and prev follow the sort order
    tests/api/test_sorting.py::test_sorting_by_a_field_uses_code_point_order_with_nulls_first
SHOULD pagination-page-parameter: page is the query parameter of pagination
    tests/api/test_paging.py::test_numbered_pages_have_a_total_and_links
    tests/api/test_paging.py::test_invalid_page_parameters_are_rejected
SHOULD filtering: filter is the query parameter of filtering
    tests/api/test_filtering.py::test_every_operator_matches_the_same_resources_as_python

# Creating Resources

MAY create-support: resources may be created
    tests/api/test_creating.py::test_creating_a_person_returns_its_attributes_and_id
MAY modify-delete-support: resources may be updated and deleted
    tests/api/test_updating.py::test_an_update_changes_only_the_attributes_it_contains
    tests/api/test_deleting.py::test_a_deleted_computer_no_longer_exists
MUST crud-atomic: a request succeeds completely or changes nothing
    tests/api/test_updating.py::test_each_missing_computer_is_reported_and_nothing_changes
    tests/api/test_creating.py::test_a_creation_that_links_to_a_missing_resource_stores_nothing
    tests/api/test_relationships.py::test_each_missing_member_is_reported_and_nothing_changes
MUST create-single-resource: a creation contains a single resource object
    tests/api/test_errors.py::test_a_document_of_another_structure_is_rejected_with_a_pointer
MUST create-type-member: it has a type
    tests/api/test_errors.py::test_a_document_of_another_structure_is_rejected_with_a_pointer
MUST create-relationships-member: a relationship in it is an object with data
    tests/api/test_conformance.py::test_a_relationship_in_a_creation_must_be_an_object_with_data
MAY create-accept-client-generated-ids: client-generated ids may be accepted
    - the service generates ids (2.1 of the description) and ignores those of clients (4.2.3)
MUST create-client-generated-ids-key: a client-generated id is a UUID in id
    - client-generated ids are ignored (4.2.3 of the description)
SHOULD create-client-generated-ids-uuid: it is a UUID according to RFC 4122
    - client-generated ids are ignored (4.2.3 of the description)
MUST create-client-generated-ids-forbidden: 403 if client-generated ids are not supported
    - according to 4.2.3 of the description such an id is ignored and the creation succeeds
MUST create-responses-201-status: a creation is 201
    tests/api/test_creating.py::test_creating_a_person_returns_its_attributes_and_id
    tests/api/test_creating.py::test_creating_a_computer_returns_its_serial_and_sets_no_owner
SHOULD create-responses-201-location: Location is the URL of the new resource
    tests/api/test_creating.py::test_the_location_header_is_the_self_link
MUST create-responses-201-document: the response contains the new resource
    tests/api/test_creating.py::test_creating_a_person_returns_its_attributes_and_id
    tests/api/test_creating.py::test_creating_a_computer_returns_its_serial_and_sets_no_owner
MUST create-responses-201-self: its self link equals Location
    tests/api/test_creating.py::test_the_location_header_is_the_self_link
MUST create-responses-202: an asynchronous creation is 202
    - all changes are completed before the response
MUST create-responses-204: with a client-generated id, 201 and the resource, or 204
    tests/api/test_creating.py::test_any_client_generated_id_is_ignored
MAY create-responses-403: an unsupported creation may be 403
    - the service does not use this option: both types can be created
MAY create-responses-404-related: a reference to a missing resource is 404
    tests/api/test_creating.py::test_a_creation_that_links_to_a_missing_resource_stores_nothing
MUST create-responses-409-exists: an existing client-generated id is 409
    - client-generated ids are ignored (4.2.3 of the description), so none can conflict
MUST create-responses-409-bad-type: a type that the collection does not contain is 409
    tests/api/test_creating.py::test_a_type_that_does_not_match_the_path_is_a_conflict
SHOULD create-responses-409-error-details: the error identifies the conflict
    tests/api/test_errors.py::test_an_error_has_the_request_id_a_pointer_and_a_detail
MAY create-responses-other-status: other statuses are allowed
    tests/api/test_creating.py::test_all_missing_attributes_are_reported_together
MAY create-responses-other-error-details: errors may have details
    tests/api/test_creating.py::test_all_missing_attributes_are_reported_together
MUST create-http-semantics: responses follow the semantics of HTTP
    tests/api/test_creating.py::test_the_location_header_is_the_self_link
    tests/api/test_errors.py::test_a_body_larger_than_a_mebibyte_is_rejected

# Updating Resources

MUST update-patch-resource: an update contains a single resource object
    tests/api/test_conformance.py::test_an_update_requires_a_single_resource_object_with_a_type
MUST update-patch-resource-members: it has type and id
    tests/api/test_conformance.py::test_an_update_requires_a_single_resource_object_with_a_type
    - the id is ignored (4.4 of the description), so it is not validated
MAY update-resource-attributes: it may contain any of the attributes
    tests/api/test_updating.py::test_an_update_changes_only_the_attributes_it_contains
MUST update-interpret-resource-attributes: missing attributes keep their values
    tests/api/test_updating.py::test_an_update_changes_only_the_attributes_it_contains
MAY update-resource-relationships: it may contain any of the relationships
    tests/api/test_updating.py::test_attributes_and_computers_change_in_one_request
    tests/api/test_updating.py::test_the_owner_of_a_computer_can_be_set_and_cleared
MUST update-interpret-resource-relationships: missing relationships keep their values
    tests/api/test_conformance.py::test_an_update_keeps_relationships_that_it_does_not_contain
MUST update-resource-relationship-value: a relationship in it is an object with data
    tests/api/test_updating.py::test_a_malformed_relationship_is_reported_with_its_pointer
MAY update-resource-relationship-reject-full-replacement: a full replacement may be rejected
    tests/api/test_updating.py::test_the_list_of_computers_is_replaced
    - the service does not use this option
MUST update-resource-relationship-reject-full-replacement-response: the whole update is then 403
    - full replacements are supported
MUST update-resource-202-status: an asynchronous update is 202
    - all changes are completed before the response
MUST update-resource-200-status: 200 if other fields change too, like full_name
    tests/api/test_updating.py::test_an_update_changes_only_the_attributes_it_contains
MUST update-resource-relationship-200-response: the response equals that of a GET
    tests/api/test_updating.py::test_an_update_changes_only_the_attributes_it_contains
    tests/api/test_updating.py::test_an_empty_update_returns_the_resource
    - changed relationships are returned in addition (4.4 of the description)
MUST update-resource-200-meta: 200 if the response contains only meta
    - an update returns the resource (4.4 of the description)
MUST update-resource-200-meta-representation: the response does not contain the resource
    - an update returns the resource (4.4 of the description)
MUST update-resource-204-status: without other changes, 200 with a document, or 204
    tests/api/test_updating.py::test_attributes_and_computers_change_in_one_request
MUST update-resource-403-status: an unsupported update is 403
    - all updates are supported; an invalid attribute value is 422
MUST update-resource-404-status: an update of a missing resource is 404
    tests/api/test_updating.py::test_updating_a_missing_person_is_not_found
MUST update-resource-404-related: a reference to a missing resource is 404
    tests/api/test_updating.py::test_each_missing_computer_is_reported_and_nothing_changes
MAY update-resource-409-status: violations of other constraints may be 409
    - the service does not use this option: only the id is unique
MUST update-resource-409-no-match: a type or id that does not match the endpoint is 409
    tests/api/test_updating.py::test_an_invalid_update_reports_its_errors_and_changes_nothing
    tests/api/test_creating.py::test_a_type_conflict_hides_other_errors_of_the_document
    - only the type: the id is ignored (4.4 of the description)
SHOULD update-resource-409-details: the error identifies the conflict
    tests/api/test_updating.py::test_an_identifier_of_the_wrong_type_is_a_conflict_with_its_pointer
SHOULD update-resource-409-details: the error contains enough details to find its source
    tests/api/test_updating.py::test_an_invalid_update_reports_its_errors_and_changes_nothing
MAY update-resource-other-status: other statuses are allowed
    tests/api/test_updating.py::test_an_invalid_update_reports_its_errors_and_changes_nothing
MAY update-resource-other-status: errors may have details
    tests/api/test_updating.py::test_an_invalid_update_reports_its_errors_and_changes_nothing
MAY update-resource-other-semantics: errors of any status may have details
    tests/api/test_updating.py::test_a_malformed_relationship_is_reported_with_its_pointer
MUST update-resource-http-semantics: responses follow the semantics of HTTP
    tests/api/test_conditional.py::test_a_write_with_an_outdated_tag_fails
    tests/api/test_errors.py::test_an_unsupported_method_gets_405_with_allow

# Updating Relationships

MUST respond-patch-to-one-relationship-link: a to-one relationship supports PATCH
    tests/api/test_relationships.py::test_patch_sets_and_clears_the_owner
MUST patch-to-one-data-member: its data is an identifier or null
    tests/api/test_relationships.py::test_malformed_to_one_linkage_is_reported_with_its_pointer
    tests/api/test_relationships.py::test_patch_sets_and_clears_the_owner
MUST patch-to-one-response: a successful change has a success status
    tests/api/test_relationships.py::test_patch_sets_and_clears_the_owner
MUST respond-patch-post-delete-to-many-relationship-link: to-many supports PATCH, POST, DELETE
    tests/api/test_relationships.py::test_patch_replaces_all_members
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
    tests/api/test_relationships.py::test_delete_removes_only_the_listed_members
MUST patch-post-delete-to-many-data-member: its data is an array of identifiers, or []
    tests/api/test_relationships.py::test_malformed_to_many_linkage_is_reported_with_its_pointer
MUST patch-to-many-complete-replace: PATCH replaces all members, or fails
    tests/api/test_relationships.py::test_patch_replaces_all_members
    tests/api/test_relationships.py::test_each_missing_member_is_reported_and_nothing_changes
MUST post-to-many-add: POST adds the members that are not present
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST post-to-many-add-again: members that are present are not added again
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST post-to-many-add-again: nor are members that the request repeats
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST post-to-many-response: adding members, present or not, succeeds
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
MUST delete-to-many: DELETE removes the members in the request
    tests/api/test_relationships.py::test_delete_removes_only_the_listed_members
MUST delete-to-many: or it is 403
    tests/api/test_relationships.py::test_delete_removes_only_the_listed_members
    - removals are supported
MUST delete-to-many-success: removing members, present or not, succeeds
    tests/api/test_relationships.py::test_delete_removes_only_the_listed_members
MUST updating-relationship-202-status: an asynchronous update is 202
    - all changes are completed before the response
MUST updating-relationship-204-status: 204 if the request represents the result
    tests/api/test_relationships.py::test_patch_replaces_all_members
    tests/api/test_relationships.py::test_post_adds_members_unless_they_are_present
    tests/api/test_relationships.py::test_delete_removes_only_the_listed_members
    tests/api/test_relationships.py::test_patch_sets_and_clears_the_owner
MUST updating-relationship-200-status: 200 if the relationship changes in other ways too
    - a relationship changes only as requested
MUST updating-relationship-200-response: the response contains the relationship
    - a relationship changes only as requested
MUST updating-relationship-200-meta: 200 if the response contains only meta
    - a change of a relationship is 204
MUST updating-relationship-200-meta-content: the response does not contain the relationship
    - a change of a relationship is 204
MUST updating-relationship-403-status: an unsupported update is 403
    - all updates are supported; to-one relationships define no POST and DELETE
MAY updating-relationship-other-status: other statuses are allowed
    tests/api/test_relationships.py::test_members_of_the_wrong_type_are_conflicts_with_pointers
MAY updating-relationship-other-details: errors may have details
    tests/api/test_relationships.py::test_members_of_the_wrong_type_are_conflicts_with_pointers
MUST update-relationship-http-semantics: responses follow the semantics of HTTP
    tests/api/test_relationships.py::test_a_relationship_allows_only_the_methods_of_its_kind
    tests/api/test_conditional.py::test_a_write_with_an_outdated_tag_fails

# Deleting Resources

MUST delete-202-status: an asynchronous deletion is 202
    - all changes are completed before the response
MUST delete-204-status: a deletion without content is 204
    tests/api/test_deleting.py::test_a_deleted_computer_no_longer_exists
    tests/api/test_deleting.py::test_the_computers_of_a_deleted_person_become_unowned
MUST delete-200-status: 200 if the response contains only meta
    - a deletion is 204
SHOULD delete-404-status: deleting a missing resource is 404
    tests/api/test_deleting.py::test_deleting_a_missing_resource_is_not_found
MAY deleting-other-status: other statuses are allowed
    tests/api/test_deleting.py::test_a_rejected_deletion_deletes_nothing
MAY deleting-other-details: errors may have details
    tests/api/test_deleting.py::test_a_rejected_deletion_deletes_nothing
MUST deleting-http-semantics: responses follow the semantics of HTTP
    tests/api/test_deleting.py::test_a_deleted_computer_no_longer_exists
    tests/api/test_deleting.py::test_a_collection_cannot_be_deleted

# Query Parameters

MUST query-parameters-non-alpha: custom query parameters contain a character other than a-z
    tests/api/test_conformance.py::test_only_parameters_of_the_specification_are_described
RECOMMENDED query-parameters-under-camel: it is a hyphen, an underscore or a capital letter
    tests/api/test_conformance.py::test_only_parameters_of_the_specification_are_described
RECOMMENDED query-parameters-bad-request: an unknown query parameter is 400
    tests/api/test_conformance.py::test_unknown_parameters_are_rejected_on_every_route

# Errors

MAY error-stop-processing: a server may stop at the first error, or continue
    tests/api/test_creating.py::test_errors_of_different_kinds_are_reported_together_with_status_400
SHOULD error-general: several errors have the most general applicable status
    tests/api/test_creating.py::test_errors_of_different_kinds_are_reported_together_with_status_400
    tests/jsonapi/test_errors.py::test_errors_of_one_status_keep_it_and_others_are_400
MUST error-object-key: errors is an array of error objects
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
MAY error-object-members: the members that an error may have; a constant title
    tests/api/test_errors.py::test_an_error_has_the_request_id_a_pointer_and_a_detail
    tests/api/test_errors.py::test_each_error_of_a_response_has_its_own_id
    tests/api/test_conformance.py::test_every_error_response_is_a_valid_document
    tests/api/test_conformance.py::test_errors_of_one_kind_share_a_title
"""

LEVELS = {"MUST": 126, "SHOULD": 11, "RECOMMENDED": 3, "MAY": 44}
"""The number of statements of each level."""

IDS = 178
"""The number of distinct ids."""


@dataclass
class Statement:
    """One entry of the table."""

    level: str
    id: str
    summary: str
    tests: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def parse_statements() -> list[Statement]:
    """Return the entries of the table."""
    statements: list[Statement] = []
    for line in filter(None, STATEMENTS.splitlines()):
        if line.startswith("    - "):
            statements[-1].reasons.append(line[6:])
        elif line.startswith("    "):
            statements[-1].tests.append(line[4:])
        elif not line.startswith("# "):
            level, name, summary = line.split(" ", 2)
            statements.append(Statement(level, name.removesuffix(":"), summary))
    return statements


def functions(path: str) -> set[str]:
    """Return the names of the functions of a file."""
    return {
        node.name
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


TABLE = parse_statements()
NAMED = sorted({test for statement in TABLE for test in statement.tests})


def test_the_table_has_every_statement() -> None:
    assert Counter(statement.level for statement in TABLE) == LEVELS
    assert len({statement.id for statement in TABLE}) == IDS


def test_every_statement_has_tests_or_a_reason() -> None:
    assert [entry.id for entry in TABLE if not entry.tests and not entry.reasons] == []


@pytest.mark.parametrize("path", sorted({test.partition("::")[0] for test in NAMED}))
def test_every_test_of_a_statement_exists(path: str) -> None:
    named = {name for file, _, name in (test.partition("::") for test in NAMED) if file == path}
    assert named - functions(path) == set()
    assert all(name.startswith("test_") for name in named)
