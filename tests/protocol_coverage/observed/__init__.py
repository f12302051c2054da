"""A folder for PYTHONPATH whose `sitecustomize` records the requests to a broker."""
