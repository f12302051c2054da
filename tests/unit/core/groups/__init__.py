"""Tests of `coordinator_server.core.groups`."""
