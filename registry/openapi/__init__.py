"""The graph -> OpenAPI 3.0.0: what there is, what it takes and what it answers."""
