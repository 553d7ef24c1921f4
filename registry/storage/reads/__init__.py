"""Queries: lookups by id or foreign key, collections, pages and filters."""
