"""The words of billing: meters, dimensions, scopes, windows, and how long names may be."""

METERS = [
    "input", "output", "cached_read", "cached_write", "reasoning", "tool_calls", "external_api",
    "worker_seconds", "environment", "storage", "network", "retrieval", "evaluation", "ci",
    "delivery", "review_minutes",
]  # fmt: skip
DIMENSIONS = [
    "tokens", "spend", "wall_seconds", "attempts", "tool_calls", "environment_seconds",
    "storage_byte_hours", "network_bytes", "review_minutes",
]  # fmt: skip
SCOPES = ["tenant", "workspace", "member", "workflow", "mission", "job", "attempt"]
WINDOWS = ["none", "hour", "day", "week", "month"]
AMOUNTS = ["incurred", "wasted", "avoided", "unallocated"]
DEFAULT_SCOPES = ["workspace", "member", "workflow", "mission"]
"""The scopes whose budgets may be made by a default on first use."""
MOST_ANCHOR = 28
"""Windows of a week may start on day 1 (Monday) to 7, of a month on day 1 to 28."""
NAME_LENGTH = 200
"""The most characters of who submits, owns or acts: what jobs keep of it."""
RESERVATION_STATES = ["open", "settled", "released"]
DELIVERY_STATES = ["pending", "delivered", "failed"]
