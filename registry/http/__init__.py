"""The HTTP side: server, routes, views, responses and error responses."""

ACCESS_LOG = "registry.access"
"""The name of the logger that has a line for each request."""
