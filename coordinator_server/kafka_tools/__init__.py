"""Kafka's command-line tools without a JVM, with Kafka's names, options, output and exit codes.

Each tool is a module with `TOOL`, a `ToolSpec`: its options and the function that runs it. The
reference is Apache Kafka's `org.apache.kafka.tools`, release `protocol.REFERENCE_VERSION`.

    OPTIONS = (Option("topic", "the topic", argument="topic"), Option("list", "list topics"))

    def run(options: Options) -> int: ...     # 0, or 1 after printing an error

    TOOL = ToolSpec("kafka-topics", OPTIONS, run, "what the tool is for")

`run_tool(TOOL, arguments)` (module `frame`) parses options like joptsimple, prints usage, `--help`
and `--version`, runs the tool, and prints exceptions as Kafka's tools do on standard error:
`UsageError` (message and usage), `ToolError` (message and class of an uncaught Java exception), and
`ClientError` (of `coordinator_server.client`). `frame.connect(options)` creates the client from
`--bootstrap-server` and `--command-config`. `script_names` has the names of all tools.
"""
