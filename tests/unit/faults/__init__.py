"""Tests of fault rules."""
