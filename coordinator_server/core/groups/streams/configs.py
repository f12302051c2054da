"""Names of the group configs of streams groups."""

SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL, INITIAL_DELAY, STANDBY_REPLICAS = (
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.assignment.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
)
RECOVERY_LAG = "streams.acceptable.recovery.lag"
TASK_OFFSET_INTERVAL = "streams.task.offset.interval.ms"

ASSIGNOR = "sticky"
"""The name of the only assignor."""
