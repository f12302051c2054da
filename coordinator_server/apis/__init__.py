"""Handlers, one module per API, same stem as in `protocol.apis`: `handle(broker, call, request)`.

A handler ends in exactly one `call.reply(...)`, at once or later. The dispatcher imports it when
the API is first asked for.
"""
