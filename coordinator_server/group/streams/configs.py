"""The configs that a streams group may have of its own."""

SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL, INITIAL_DELAY, STANDBY_REPLICAS = (
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.assignment.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
)
