"""Names of headers that aiohttp does not know."""

IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_REPLAYED = "Idempotency-Replayed"
REQUEST_ID = "X-Request-ID"
