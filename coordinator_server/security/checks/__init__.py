"""Authorization checks of all APIs, in Kafka's order, and the responses to refused requests.

`table` defines the checks of each API; `guard` wraps the handlers with them. A guard removes
refused entries from the request and passes their response entries to the handler, which serves the
rest and builds the response (`security.rights`). Without an authorizer these modules are not
imported. Source: KafkaApis, ControllerApis and AuthHelper.
"""
