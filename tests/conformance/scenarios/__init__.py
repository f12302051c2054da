"""Our scenarios, one module per area; every module has its `AREA`."""
