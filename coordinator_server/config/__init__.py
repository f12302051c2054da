"""The settings: their table, where values come from, typed access."""
