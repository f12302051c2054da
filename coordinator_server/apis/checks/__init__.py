"""What each API asks the authorizer, in Kafka's order, and what it answers when refused.

`table` says it for all APIs; `guard` wraps the handlers by it. A guard takes what is refused out of
the request, lets the handler serve the rest, and puts what was refused into the answer. Nothing of
this is imported without an authorizer. Source: KafkaApis, ControllerApis and AuthHelper.
"""
