"""Request handlers, one module per API: `handle(broker, call, request)`.

Modules have the same names as in `protocol.apis`. A handler calls `call.reply(...)` exactly once,
now or later. The dispatcher imports a module when a client first uses its API.
"""
