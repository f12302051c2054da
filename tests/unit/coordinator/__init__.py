"""Tests of what runs the heart: group tasks, routing, the offsets log, loading."""
