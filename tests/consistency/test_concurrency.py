"""Many clients at once: every response shows the database at one point in time."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.consistency.checker import violations
from tests.consistency.load import record
from tests.consistency.scale import SCALE
from tests.system.conftest import Start


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_every_response_is_one_point_in_time(start: Start, workers: str) -> None:
    service = start("--workers", workers)
    history, rules = await record(service.url, SCALE)
    assert {call.status for call in history} <= {200, 201, 204, 404, 412, None}
    unknown = [call for call in history if call.status is None]
    assert len(unknown) < len(history) / 100  # of these, anything would be right
    found = violations(history, rules)
    count = len({id(violation.call) for violation in found})
    reasons = Counter(violation.reason for violation in found)
    assert not found, f"{count} of {len(history)} responses: {reasons}, first {found[0]}"
