"""A folder for PYTHONPATH: its `sitecustomize` watches the requests of a broker."""
