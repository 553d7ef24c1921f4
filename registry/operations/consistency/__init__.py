"""Consistency: what stored data have to satisfy, how violations are found, and their repair."""
