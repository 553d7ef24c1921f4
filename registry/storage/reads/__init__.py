"""Queries: look-ups by id or key, collections, pages and filters."""
