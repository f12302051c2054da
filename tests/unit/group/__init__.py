"""Tests of `coordinator_server.group`."""
