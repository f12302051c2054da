"""The report: one HTML page, a summary for the terminal, and an alert for CI.

The report is made from the tables of a run, without Spark, so it takes only a moment.
"""
