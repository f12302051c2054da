"""The data pipeline on Spark: tables of lag, health, rebalances and forecasts.

The pipeline reads an offsets log (`__consumer_offsets` of this broker or of Apache Kafka), decodes
its records into bronze tables, and computes all other tables from these. Every table and column is
described in `pipeline.schema`.
"""
