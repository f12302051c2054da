"""The data pipeline on Spark: what `__consumer_offsets` knows, as tables people can act on.

It reads an offsets log (of this broker or of Apache Kafka), decodes it into bronze tables, and
makes tables of lag, health, rebalances and forecasts from them. Every table and column is in
`pipeline.schema`.
"""
