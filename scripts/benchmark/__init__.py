"""The benchmark: compares the service with two reference servers, and shows how it scales."""
