"""The HTTP side: server, routes, views, responses and error responses."""
