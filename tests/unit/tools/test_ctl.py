"""`coordinator-server ctl`: the requests that it sends, and arguments that it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from coordinator_server.control.openapi import path_words
from coordinator_server.control.route import ControlRoute
from coordinator_server.control.routes import PATH_PARAMETERS, ROUTES
from coordinator_server.control.schema import fields_of, shape_named
from coordinator_server.testing.control import BrokerError, Control
from coordinator_server.tools import ctl
from coordinator_server.tools.ctl_output import Printer
from coordinator_server.tools.ctl_times import DURATIONS, TIME_OPTIONS, Times

RESET = ("offsets", "reset", "g", "--to", "earliest")

Sent = list[tuple[str, str, dict[str, object] | None, dict[str, object] | None]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Return the list of the requests that `ctl` sends from now on; each gets an empty answer."""
    requests: Sent = []

    def call(
        _: Control, method: str, path: str, query: Any = None, body: Any = None, **_options: Any
    ) -> dict[str, Any]:
        requests.append((method, path, query, body))
        return {}

    monkeypatch.setattr(Control, "call", call)
    return requests


@pytest.mark.parametrize(
    ("arguments", "dry_run"),
    [((), None), (("--dry-run",), True), (("--dry-run", "true"), True),
     (("--dry-run", "false"), False)],
)  # fmt: skip
def test_a_boolean_is_a_flag_true_or_false(
    sent: Sent, arguments: tuple[str, ...], dry_run: bool | None
) -> None:
    """A boolean option may stand alone, which means true."""
    assert ctl.main([*RESET, *arguments]) == 0
    ((_, _, _, body),) = sent
    assert body is not None
    assert body.get("dry_run") is dry_run


def test_a_boolean_parameter_is_a_flag(sent: Sent) -> None:
    """The option of a boolean query parameter may stand alone, which means true."""
    assert ctl.main(["groups", "list", "--times"]) == 0
    assert ctl.main(["groups", "list", "--times", "false"]) == 0
    assert [query and query["times"] for _, _, query, _ in sent] == ["true", "false"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RESET, "--dry-run", "yes"), "--dry-run is yes, which is not true or false"),
        ((*RESET, "--dry-run", "True"), "--dry-run is True, which is not true or false"),
        ((*RESET, "--shift-by", "x"), "--shift-by is x, which is not an integer"),
        ((*RESET, "--partitions", "x"), "--partitions is x, which is not an integer"),
        (("topics", "create", "t", "--partitions", "x"), "--partitions is x, which is not"),
        (("offsets", "set", "g", "--offsets", "{"), "--offsets is {, which is not JSON"),
        (("quotas", "alter", "--set", "a=x"), "--set a is x, which is not a number"),
        (("topics", "show", ""), "TOPIC is empty: name of a topic is needed"),
        (("topics", "create", ""), "TOPIC is empty: name of a topic is needed"),
        (("groups", "lag", ""), "GROUP is empty: group id is needed"),
        (("records", "show", "t", "0", ""), "OFFSET is empty"),
        (("records", "list", "t", "--timestamp", "soon"), "--timestamp-ms is 'soon', which is no"),
        (("groups", "rebalances", "g", "--since", "2023-13-01"), "--since-ms is '2023-13-01', whi"),
        (("topics", "grow", "t"), "--count is missing: new number of partitions"),
        (("offsets", "set", "g", "--body", "LIST"), "is not a JSON object, but [1]"),
        (("offsets", "set", "g", "--body", "BROKEN"), "is not JSON: "),
        (("offsets", "set", "g", "--body", "/none"), "--body /none: No such file"),
        (("topics", "list", "--http-user", "bob", "--password-file", "/none"), "/none: No such"),
        (("topics", "list", "--http-user", "bob", "--password-file", "EMPTY"), "password is empty"),
        (("topics", "list", "--password-file", "EMPTY"), "--password-file needs --http-user"),
        (
            ("topics", "create", "t", "--configs", "a=1", "--set", "a=2"),
            "a is given twice",
        ),
        (("offsets", "set", "g", "--body", "TWICE"), "'offsets' is given twice: [] and [1]"),
        (("records", "produce", "t", "--records", '[{"key": "a", "key": "b"}]'), "'key' is given"),
        (("offsets", "set", "g", "--body", "TWICE", "--offsets", "[]"), "is given twice"),
        (("offsets", "set", "g", "--body", "ONCE", "--offsets", "[]"), "--offsets and offsets in"),
    ],
)
def test_a_wrong_value_is_refused_with_its_option(
    sent: Sent,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """A wrong value of an option is an error with exit code 2; no request is sent."""
    files = {
        "LIST": "[1]",
        "BROKEN": "{",
        "EMPTY": "\n",
        "ONCE": '{"offsets": []}',
        "TWICE": '{"offsets": [], "offsets": [1]}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / word) if word in files else word for word in arguments]
    assert ctl.main(paths) == 2
    assert message in capsys.readouterr().err
    assert sent == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*RESET, "--to", "latest"), "argument --to: given twice: earliest and latest"),
        ((*RESET, "--dry-run", "--dry-run", "false"), "--dry-run: given twice: true and false"),
        (("topics", "list", "--filter=a", "--filter=b"), "--filter: given twice: a and b"),
        (("groups", "rebalances", "g", "--since=1", "--since-ms=2"), "given twice: 1 and 2"),
        (
            ("login", "--http-user", "bob"),
            "unknown arguments: --http-user bob, did you mean --user?",
        ),
    ],
)
def test_an_option_is_given_once(
    sent: Sent, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    """A repeated option is refused with both values; `login` has no second user."""
    with pytest.raises(SystemExit) as raised:
        ctl.main(arguments)
    assert raised.value.code == 2
    assert words in capsys.readouterr().err
    assert sent == []


def test_configs_have_the_same_options_when_created_and_altered(sent: Sent) -> None:
    """`--configs` and `--set` work for `topics create`, `topics alter` and `settings alter`."""
    for verb in (("topics", "create", "t"), ("topics", "alter", "t"), ("settings", "alter")):
        assert ctl.main([*verb, "--configs", "a=1"]) == 0
        assert ctl.main([*verb, "--set", "a=1"]) == 0
    assert [body for _, _, _, body in sent] == [
        *[{"configs": {"a": "1"}}] * 2,
        *[{"set": {"a": "1"}}] * 4,
    ]


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ((), ("latest", None, None)),
        (("--offset", "5"), (None, "5", None)),
        (("--timestamp", "7"), (None, None, 7)),
        (("--position", "earliest"), ("earliest", None, None)),
    ],
)
def test_tail_begins_at_the_end_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], start: tuple[object, ...]
) -> None:
    """`records tail` sends its default position only without another start."""
    queries: list[dict[str, object]] = []

    def call(_: Control, method: str, path: str, query: Any, *_more: Any, **_options: Any) -> Any:
        queries.append(query)
        raise BrokerError("enough", 500)

    monkeypatch.setattr(Control, "call", call)
    assert ctl.main(["records", "tail", "t", *options]) == 1
    (query,) = queries
    assert (query["position"], query["offset"], query["timestamp_ms"]) == start


class Streams:
    """Answers each request for events with the next of `streams`, which may end with an error."""

    def __init__(self, *streams: tuple[int | BrokerError, ...]) -> None:
        self.streams = list(streams)
        self.asked: list[object] = []

    def events(self, _: Control, path: str, query: dict[str, object]) -> Iterator[dict[str, Any]]:
        """Yield the events of one stream."""
        assert path == "/events"
        self.asked.append(query["last_event_id"])
        for entry in self.streams.pop(0):
            if isinstance(entry, BrokerError):
                raise entry
            yield {"id": entry, "type": "topic", "at_ms": 0, "data": {}}


def test_events_are_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream that ends is resumed after its last event, also after failed attempts."""
    away, between = BrokerError("no broker"), BrokerError("restored", 503)
    streams = Streams((7, 8), (away,), (between,), (9,), (BrokerError("who", 401),))
    monkeypatch.setattr(Control, "events", lambda *given: streams.events(*given))
    monkeypatch.setattr(ctl, "_PAUSE_SECONDS", 0)
    assert ctl.main(["events", "--json"]) == 1
    assert streams.asked == [None, 8, 8, 8, 9]
    written = capsys.readouterr()
    assert [json.loads(line)["id"] for line in written.out.splitlines()] == [7, 8, 9]
    ended = "coordinator-server ctl: the broker has ended the stream of events: reconnecting"
    assert written.err.splitlines() == [ended, ended, "coordinator-server ctl: who"]


@pytest.mark.parametrize("seen", [(), (7,)])
def test_events_of_a_broker_that_does_not_return_end_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seen: tuple[int, ...]
) -> None:
    """Without a broker `events` ends with exit code 1, after a while if it was connected."""
    streams = Streams(*([seen] if seen else []), *[(BrokerError("no broker"),)] * 1_000)
    monkeypatch.setattr(Control, "events", lambda *given: streams.events(*given))
    monkeypatch.setattr(ctl, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(ctl, "_RECONNECT_SECONDS", 0.02)
    assert ctl.main(["events"]) == 1
    assert (len(streams.asked) > 2) is bool(seen)
    assert capsys.readouterr().err.splitlines()[-1] == "coordinator-server ctl: no broker"


def test_a_password_is_not_an_argument(
    sent: Sent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ctl login` reads the password from a file; there is no option for the password itself."""
    (tmp_path / "password").write_text("secret\n")
    file = ("--password-file", str(tmp_path / "password"))
    assert ctl.main(["login", "--user", "bob", *file]) == 0
    assert sent == [("POST", "/login", {}, {"user": "bob", "password": "secret"})]
    with pytest.raises(SystemExit):
        ctl.main(["login", "--user", "bob", "--password", "secret"])
    assert "secret" not in capsys.readouterr().out


def test_a_request_logs_in_with_the_password_of_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--http-user` sends name and password as Authorization: Basic."""
    logins: list[tuple[str, str] | None] = []

    def call(self: Control, *_: Any, **_options: Any) -> dict[str, Any]:
        logins.append(self.login)
        assert b"Authorization: Basic Ym9iOnM6w7w=\r\n" in self.encoded("GET", "/", None, None)
        return {}

    monkeypatch.setattr(Control, "call", call)
    monkeypatch.setattr("sys.stdin", StringIO("s:ü\n"))
    assert ctl.main(["topics", "list", "--http-user", "bob"]) == 0
    assert logins == [("bob", "s:ü")]


# --- one rule for exit codes ----------------------------------------------------------------------


def arguments_of(route: ControlRoute) -> list[str]:
    """Return arguments of a verb that are right, as far as the table of routes tells."""
    words = route.verb.split()
    for word in path_words(route):
        words.append("7" if PATH_PARAMETERS[word][0] == "integer" else "name")
    for parameter in route.query:
        if parameter.is_required:
            words += [ctl._option(parameter.name), "7"]
    fields = fields_of(shape_named(route.body)) if route.body else {}
    for name, (kind, _, is_required) in fields.items():
        if is_required and name != "password":
            words += [ctl._option(name), right_value(kind)]
    return words


def right_value(kind: Any) -> str:
    """Return the value of an option of a field."""
    if get_origin(kind) is Literal:
        return str(get_args(kind)[0])
    if get_origin(kind) is dict:
        return "user=bob"
    if get_origin(kind) is list:
        return "[]"
    return "7"


def wrong_arguments() -> list[tuple[str, ...]]:
    """Return arguments with one mistake each, for every verb and each mistake that it can have."""
    wrong: list[tuple[str, ...]] = []
    for route in filter(lambda route: route.verb, ROUTES):
        right = arguments_of(route)
        verb_words = len(route.verb.split())
        for place, word in enumerate(path_words(route), start=verb_words):
            values = ["", "x", "-1"] if PATH_PARAMETERS[word][0] == "integer" else [""]
            wrong += [(*right[:place], value, *right[place + 1 :]) for value in values]
        for parameter in route.query:
            if parameter.kind != "text" or parameter.choices:
                option = ctl._option(parameter.name)
                wrong.append((*right, f"{option}=wrong"))
            if parameter.is_required:
                place = right.index(ctl._option(parameter.name))
                wrong.append((*right[:place], *right[place + 2 :]))
        fields = fields_of(shape_named(route.body)) if route.body else {}
        for name, (kind, _, is_required) in fields.items():
            inner = ctl._without_null(kind)
            if inner not in (str, Any) and get_args(inner) != (str,) and name != "password":
                wrong.append((*right, f"{ctl._option(name)}=wrong"))
            if is_required and name != "password":
                place = right.index(ctl._option(name))
                wrong.append((*right[:place], *right[place + 2 :]))
        wrong += [(*right, "--unknown"), (*right, "unknown")]
        wrong += [(*right, "--http", "nowhere"), (*right, "--http-token-file", "/none")]
    return wrong


@pytest.mark.parametrize("arguments", wrong_arguments(), ids=" ".join)
def test_a_mistake_ends_with_2_for_every_verb(
    sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    """A missing, wrong or unknown argument of any verb ends with exit code 2 and one line."""
    monkeypatch.setattr("sys.stdin", StringIO("secret\n"))
    try:
        status = ctl.main(arguments)
    except SystemExit as error:  # from argparse
        status = int(str(error.code))
    assert status == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("coordinator-server ctl")
    assert sent == []


@pytest.mark.parametrize(
    ("route", "status", "code"),
    [
        (route, status, code)
        for route in ROUTES
        if route.verb
        for status, code in ((400, 2), (404, 1))
    ]
    + [(ROUTES[0], status, 1) for status in (0, 401, 403, 409, 429, 500, 503, 504)]
    + [(ROUTES[0], status, 2) for status in (413, 431)],
    ids=lambda value: getattr(value, "verb", str(value)),
)
def test_the_exit_code_of_a_refused_request(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    route: ControlRoute,
    status: int,
    code: int,
) -> None:
    """An argument that the broker refuses gives exit code 2; any other failure gives 1."""

    def refuse(*_: Any, **_options: Any) -> Any:
        raise BrokerError("no\nand no", status)

    monkeypatch.setattr(Control, "call", refuse)
    monkeypatch.setattr(Control, "events", refuse)
    monkeypatch.setattr("sys.stdin", StringIO("secret\n"))
    assert ctl.main(arguments_of(route)) == code
    assert capsys.readouterr().err == "coordinator-server ctl: no\\nand no\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topic", "list"), "there is no 'topic', did you mean topics?"),
        (("topics", "lst"), "there is no 'lst', did you mean list?"),
        (("topics", "list", "--filtr", "x"), "--filtr x, did you mean --filter?"),
        (("topics", "xyz"), "there is no 'xyz' (known: list, show, create"),
        (("topics", "list", "filter"), "unknown arguments: filter\n"),
    ],
)
def test_similar_names_are_proposed(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    """For an unknown command, verb or option `ctl` proposes a similar one or lists all."""
    with pytest.raises(SystemExit) as raised:
        ctl.main(arguments)
    assert raised.value.code == 2
    assert words in capsys.readouterr().err


# --- times and output -----------------------------------------------------------------------------

NOW_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("5", 5),
        ("10m", NOW_MS - 600_000),
        ("1.5h ago", NOW_MS - 5_400_000),
        ("2 d", NOW_MS - 172_800_000),
        ("22:13", NOW_MS - 20_000),
        ("22:13:20.5", NOW_MS + 500 - 86_400_000),
        ("9:00", NOW_MS - 47_600_000),
        ("2023-11-14", NOW_MS - 80_000_000),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("2023-11-14 22:13:20.250", NOW_MS + 250),
    ],
)
def test_times_are_read(text: str, at_ms: int) -> None:
    """A time is given in ms, as an age, as a time of day, or as ISO 8601, by default in UTC."""
    assert Times(lambda: NOW_MS).parse("--since-ms", text) == at_ms


def test_a_time_is_an_option_with_and_without_its_unit(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--since 10m` sets `--since-ms` from the broker's time; fields of a body are parsed alike."""
    monkeypatch.setattr(ctl, "_now_ms", lambda _: NOW_MS)
    assert ctl.main(["groups", "rebalances", "g", "--since", "10m", "--until-ms", "7"]) == 0
    reset = ["offsets", "reset", "g", "--to", "timestamp", "--timestamp"]
    assert ctl.main([*reset, "2023-11-14T22:13:20Z"]) == 0
    (_, _, query, _), (_, _, _, body) = sent
    assert query is not None
    assert body is not None
    assert (query["since_ms"], query["until_ms"]) == (NOW_MS - 600_000, 7)
    assert body["timestamp_ms"] == NOW_MS


def test_produce_writes_text_by_default(sent: Sent) -> None:
    """`records produce` sends text; --format or the body can choose another format."""
    produce = ["records", "produce", "t", "--records", '[{"value": "x"}]']
    assert ctl.main(produce) == 0
    assert ctl.main([*produce, "--format", "hex"]) == 0
    assert [body and body["format"] for _, _, _, body in sent] == ["text", "hex"]


def test_times_and_stories_are_printed_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Times are printed in UTC with their age, durations with units, rebalances as text."""
    account = {"trigger": "member joined", "generation": 3, "members_after": 2, "x": {}}
    rebalance = {
        "group": "g",
        "started_ms": NOW_MS - 65_000,
        "ended_ms": NOW_MS - 63_500,
        "account": account,
        "story": ["first line", "\x1b[31msecond"],
    }
    answer = {
        "now_ms": NOW_MS,
        "offset_ms": 90_000,
        "open_since_ms": None,
        "last_rebalance": ["a story"],
        "rebalances": [rebalance],
        "counts": {"topics": 3, "groups": None},
        "next": None,
    }
    printer = Printer(Times(lambda: NOW_MS))
    printer.show(answer)
    assert capsys.readouterr().out.splitlines() == [
        "now_ms: 2023-11-14T22:13:20.000Z",
        "offset_ms: 1 min 30 s",
        "open_since_ms: -",
        "last_rebalance:",
        "    a story",
        "STARTED                                   DURATION  TRIGGER        GENERATION  MEMBERS",
        "2023-11-14T22:12:15.000Z (1 min 5 s ago)  1.5 s     member joined  3           2",
        "",
        "g, 2023-11-14T22:12:15.000Z (1 min 5 s ago):",
        "    first line",
        r"    \x1b[31msecond",
        "counts: topics=3, groups=-",
    ]
    rows = [{"partition": 0, "beyond_end": 4}, {"partition": 1, "beyond_end": 0}]
    printer.show({"partitions": rows})
    assert "4 beyond the log end" in capsys.readouterr().out


def content(shown_text: str, schema_id: int | None = None, **decoded: object) -> dict[str, object]:
    """Return a content as the API describes it."""
    shown = {"format": "hex", "text": shown_text, "size_bytes": 9, "is_cut": False}
    known = {"schema_type": None, "name": None, "text": None, "is_cut": False, "error": None}
    return {**shown, "schema_id": schema_id} | ({"decoded": known | decoded} if decoded else {})


def test_records_are_shown_decoded_with_their_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """A content with a schema id has the id before its text; an error stands beside the bytes."""
    avro = content("00ff", 7, schema_type="AVRO", name="Order", text='{"id": 1}')
    failed = content("00ff", 8, schema_type="JSON", error="no such schema")
    cut = {**content("ab"), "is_cut": True}
    printer = Printer(Times(lambda: NOW_MS), is_wide=False)
    for key, value in ((avro, failed), (content("00", 9), cut)):
        printer.show_record({"partition": 1, "offset": 5, "key": key, "value": value})
    printer.show({"key": avro})
    assert capsys.readouterr().out.splitlines() == [
        '1:5  [schema 7, AVRO Order] {"id": 1}  [schema 8, JSON, not decoded: no such schema] 00ff',
        "1:5  [schema 9] 00  ab...",
        'key: [schema 7, AVRO Order] {"id": 1}',
    ]


def test_only_tables_at_a_terminal_are_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Facts are whole; cells of tables are cut at a terminal unless --wide is given."""
    name = "n" * 249
    answer = {"topic": name, "topics": [{"topic": name, "error": None}, {"topic": "t", "error": 1}]}
    monkeypatch.setattr(Control, "call", lambda *_, **_options: answer)
    for is_terminal, options, cell in (
        (False, (), name),
        (True, ("--wide",), name),
        (True, (), f"{name[:77]}..."),
    ):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal)
        assert ctl.main(["topics", "list", *options]) == 0
        fact, head, first, second = capsys.readouterr().out.splitlines()
        assert fact == f"topic: {name}"
        assert head.split() == ["TOPIC", "ERROR"]
        assert (first, second.split()) == (f"{cell}  -", ["t", "1"])


def test_no_printer_writes_terminal_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and texts that clients, or a foreign server, chose are escaped by every printer."""
    bad, printer = "\x1b[2J\u202e\x9b\x07", Printer(Times(lambda: NOW_MS))
    account = {"trigger": bad, "generation": bad, "members_after": [bad, {bad: bad}]}
    rebalance = {"group": bad, "started_ms": 0, "ended_ms": 1, "account": account, "story": [bad]}
    content = {"size_bytes": 1, "format": "text", "text": bad}
    printer.show(
        {
            bad: bad,
            "beyond_end": bad,
            "other": {bad: [bad, {bad: bad}]},
            "story": [bad],
            "rebalances": [rebalance],
            "rows": [{bad: bad, "beyond_end": bad, "b": {"c": bad}, "d": content}],
            f"{bad}x": [bad],
            "next": bad,
        }
    )
    printer.show_event({"at_ms": 0, "type": bad, "data": {bad: bad}})
    printer.show_record({"partition": bad, "offset": bad, "key": content, "value": {bad: bad}})
    written = capsys.readouterr()
    for line in (*written.out.splitlines(), *written.err.splitlines()):
        assert line.isprintable(), ascii(line)


def test_every_field_in_ms_is_a_time_or_a_duration() -> None:
    """The documented meaning of a field in ms tells whether it is a duration or a time."""
    fields: dict[str, str] = {}
    for route in ROUTES:
        for shape in filter(None, (route.response, route.body)):
            collect(shape_named(shape), fields)
    named = {name: meaning for name, meaning in fields.items() if name.endswith("_ms")}
    words = ("how long", "age of", "difference", "transaction.timeout.ms", "largest value")
    assert {name for name, meaning in named.items() if meaning.startswith(words)} == {
        name for name in named if name in DURATIONS
    }
    times = [one.name for route in ROUTES for one in route.query if one.name.endswith("_ms")]
    assert set(times) <= TIME_OPTIONS


def collect(kind: Any, fields: dict[str, str]) -> None:
    """Add the names and meanings of all fields of a shape."""
    for inner in get_args(kind):
        collect(inner, fields)
    if hasattr(kind, "__total__"):
        for name, (field_kind, meaning, _) in fields_of(kind).items():
            fields[name] = meaning
            collect(field_kind, fields)
