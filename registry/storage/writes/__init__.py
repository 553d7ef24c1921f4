"""Inserts, updates and deletions, with id allocation and transactions."""
