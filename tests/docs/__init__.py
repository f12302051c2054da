"""Build the documentation: `make docs` runs Sphinx with docs/conf.py, which uses these modules."""
