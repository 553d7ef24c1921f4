"""All access to MongoDB: what the other packages import."""

from registry import capacity as capacity  # sizes the pool before motor is imported
from registry.storage.bulkheads import Bulkhead, Bulkheads
from registry.storage.errors import (
    BulkheadFull,
    DiskNearlyFull,
    DuplicateValue,
    FingerprintMismatch,
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
from registry.storage.records import (
    CURRENT_VERSION,
    by_id,
    computed_texts,
    key_of,
    recompute,
    version_of,
)
from registry.storage.repository import Repository
from registry.storage.text_blocks import NO_BLOCK, collection_of, lacking, searched_names
from registry.storage.token_lookups import TokenLookups
from registry.storage.tokens import COLLECTION, Token, Tokens
from registry.storage.writes.id_allocation import greatest_id
from registry.storage.writes.idempotency import IdempotencyKey
from registry.storage.writes.write_requests import WriteResult

__all__ = [
    "CHUNK",
    "COLLECTION",
    "CURRENT_VERSION",
    "INCOMPLETE_RESTORE",
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
    "by_id",
    "collection_of",
    "computed_texts",
    "connect",
    "greatest_id",
    "is_incomplete",
    "key_of",
    "lacking",
    "reason_of",
    "recompute",
    "require_complete",
    "searched_names",
    "snapshot_session",
    "version_of",
]
