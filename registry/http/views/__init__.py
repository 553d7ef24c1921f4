"""Class-based views: each method reads as the pipeline from request to response."""
