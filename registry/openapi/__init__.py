"""The OpenAPI 3.0.0 document, derived from the graph, and Swagger UI."""
