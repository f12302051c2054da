"""The tables, one module each: `make(bronze, questions) -> DataFrame`, columns as in `schema`.

A table may be made from other tables; it calls their `make`.
"""
