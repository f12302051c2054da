"""Tests of the code around the groups: tasks, routing, the offsets log, loading."""
