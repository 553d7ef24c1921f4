"""All access to MongoDB: what the other packages import."""

from registry import capacity as capacity  # sizes the pool before motor is imported
from registry.storage.bulkheads import Bulkhead, Bulkheads
from registry.storage.errors import (
    BulkheadFull,
    DiskNearlyFull,
    DuplicateValue,
    FingerprintMismatch,
    InvalidRecord,
    QueryTimeout,
    ReadOnlyAttribute,
    RecordNotFound,
    StorageError,
    StoredResultTooLarge,
    TokenNameTaken,
    TokenNotFound,
    VersionConflict,
)
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.mongo_client import (
    INCOMPLETE_RESTORE,
    Database,
    connect,
    is_incomplete,
    reason_of,
    require_complete,
)
from registry.storage.mongo.sessions import SnapshotExpired, snapshot_session
from registry.storage.reads.listings import CHUNK, Listing
from registry.storage.reads.snapshot import Snapshot
from registry.storage.record_schema import invalid_fields, record_schema
from registry.storage.records import (
    NEXT_VERSION,
    computed_texts,
    recompute,
)
from registry.storage.repository import Repository
from registry.storage.text_blocks import NO_BLOCK, collection_of, lacking, searched_names
from registry.storage.tokens import COLLECTION, Token, TokenLookups, Tokens
from registry.storage.writes.id_allocation import greatest_id
from registry.storage.writes.idempotency import IdempotencyKey
from registry.storage.writes.write_requests import WriteResult

__all__ = [
    "CHUNK",
    "COLLECTION",
    "INCOMPLETE_RESTORE",
    "NEXT_VERSION",
    "NO_BLOCK",
    "Bulkhead",
    "BulkheadFull",
    "Bulkheads",
    "Coalescer",
    "Database",
    "DiskNearlyFull",
    "DuplicateValue",
    "FingerprintMismatch",
    "IdempotencyKey",
    "InvalidRecord",
    "Listing",
    "QueryTimeout",
    "ReadOnlyAttribute",
    "RecordNotFound",
    "Repository",
    "Snapshot",
    "SnapshotExpired",
    "StorageError",
    "StoredResultTooLarge",
    "Token",
    "TokenLookups",
    "TokenNameTaken",
    "TokenNotFound",
    "Tokens",
    "VersionConflict",
    "WriteResult",
    "collection_of",
    "computed_texts",
    "connect",
    "greatest_id",
    "invalid_fields",
    "is_incomplete",
    "lacking",
    "reason_of",
    "recompute",
    "record_schema",
    "require_complete",
    "searched_names",
    "snapshot_session",
]
