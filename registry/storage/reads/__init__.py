"""Queries: look-ups by id or foreign key, collections, pages and filters."""
