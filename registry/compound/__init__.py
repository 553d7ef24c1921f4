"""Compound documents: included resources, in memory or as a stream."""
