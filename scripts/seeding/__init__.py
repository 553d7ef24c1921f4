"""Seed data for a running registry; scripts/seed runs it."""
