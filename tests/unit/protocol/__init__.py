"""Unit tests of the protocol package."""
