"""All access to MongoDB: what the packages import that serve requests and run commands."""

from registry import capacity as capacity  # sizes the pool before motor is imported
from registry.storage.bulkheads import Bulkhead as Bulkhead
from registry.storage.mongo.batching import Coalescer as Coalescer
from registry.storage.mongo.change_feed import ChangeFeed as ChangeFeed
from registry.storage.mongo.change_feed import Commit as Commit
from registry.storage.mongo.change_feed import FeedPosition as FeedPosition
from registry.storage.mongo.change_feed import RecentCommits as RecentCommits
from registry.storage.mongo.change_feed import number_of_changes as number_of_changes
from registry.storage.mongo.mongo_client import SERVICE_COLLECTION as SERVICE_COLLECTION
from registry.storage.mongo.mongo_client import Database as Database
from registry.storage.mongo.mongo_client import SnapshotExpired as SnapshotExpired
from registry.storage.mongo.mongo_client import connect as connect
from registry.storage.mongo.mongo_client import require_complete as require_complete
from registry.storage.reads.listings import Listing as Listing
from registry.storage.reads.shared_reads import TooManyMembers as TooManyMembers
from registry.storage.reads.snapshot import Snapshot as Snapshot
from registry.storage.repository import Repository as Repository
from registry.storage.tokens import COLLECTION as COLLECTION
from registry.storage.tokens import Token as Token
from registry.storage.tokens import TokenLookups as TokenLookups
from registry.storage.tokens import TokenNameTaken as TokenNameTaken
from registry.storage.tokens import TokenNotFound as TokenNotFound
from registry.storage.tokens import Tokens as Tokens
from registry.storage.writes.row_batches import RowImport as RowImport
from registry.storage.writes.write_requests import IdempotencyKey as IdempotencyKey
from registry.storage.writes.write_requests import WriteResult as WriteResult
