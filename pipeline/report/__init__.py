"""What people look at: one HTML page, a summary for the terminal, and an alert for CI.

Made from the tables that a run wrote, without Spark: a report opens in a moment.
"""
