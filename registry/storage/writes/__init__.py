"""Inserts, updates and deletions, with their ids and transactions."""
