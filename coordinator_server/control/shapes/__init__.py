"""The shapes of the control API: request bodies and responses, one module for each resource.

A shape is a TypedDict. The annotation of a field has its meaning: `Annotated[int, "node id"]`.
`control.schema` makes JSON Schema of the shapes, and `coordinator_server.testing` uses them as the
types of its client. So these modules import only `typing` and each other.

Times are milliseconds since 1970 (`..._at_ms`, `timestamp_ms`) by the broker's clock; durations are
milliseconds too. A list that is paged has the field `next`: pass its value as the parameter `after`
to get the next page; null on the last page.
"""
