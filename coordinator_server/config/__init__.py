"""The settings: their table, the sources of values, and typed access to values."""
