"""Our scenarios, one module per area, each with its `AREA`."""
