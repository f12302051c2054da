"""Kafka's command-line tools without a JVM: the names, options, output and exit codes of Kafka's.

One module per tool, with `TOOL`, a `Tool`: its options and the function that does the work. The
reference is Apache Kafka's `org.apache.kafka.tools`, release `protocol.REFERENCE_VERSION`.

    OPTIONS = (Option("topic", "the topic", argument="topic"), Option("list", "list topics"))

    def run(options: Options) -> int: ...     # 0, or 1 after it printed what is wrong

    TOOL = Tool("kafka-topics", OPTIONS, run, "what the tool is for")

`run_tool(TOOL, arguments)` (module `frame`) parses as joptsimple does, prints usage, `--help` and
`--version`, runs, and turns exceptions into Kafka's lines on standard error: `UsageError` (message
and usage), `ToolError` (an uncaught Java exception: its message, its class), `ClientError` (of
`coordinator_server.client`). `frame.connect(options)` makes the client from `--bootstrap-server`
and `--command-config`. `script_names` has the names under which everything is reached.
"""
