"""JAAS text in a setting. tests/oracle checks the cases against Kafka's JaasContext."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_server.credentials.jaas import (
    JaasError,
    LoginModule,
    parse_jaas,
    parse_jaas_file,
    render_login_module,
)

GOOD = {
    'a.B required x="y";': [("a.B", {"x": "y"})],
    "a.B REQUIRED;": [("a.B", {})],
    "a.B sufficient x='y \"z\"' ;": [("a.B", {"x": 'y "z"'})],
    'a optional x="a\\"b\\\\c\\n\\101\\7z";': [("a", {"x": 'a"b\\c\nA\az'})],
    "a required x=y-z_1$.b;": [("a", {"x": "y-z_1$.b"})],
    'a required /* c */ x="1" // d\n y="2";': [("a", {"x": "1", "y": "2"})],
    "a required x=y / z\n;": [("a", {"x": "y"})],
    'a requisite x="";b required;': [("a", {"x": ""}), ("b", {})],
    'a required x="1" x="2";': [("a", {"x": "2"})],
    'a required user_zoë="é;=";': [("a", {"user_zoë": "é;="})],
    '"a b" required\n\tx = "y"\n;': [("a b", {"x": "y"})],
}
BAD = [
    "",
    "   ",
    "a",
    "a required",
    'a required x="secret"',
    "a needed;",
    'a required x "secret";',
    "a required x=;",
    "a required x=5;",
    "a required x=-5;",
    'a required ="secret";',
    'a required x="secret\n";',
    'a required x=secret" ;',
    "a ;",
    "/* a required;",
    "a required x=1secret;",
]


GOOD_FILES = {
    "": {},
    "// nothing\n": {},
    'a { M required x="y"; };': {"a": [("M", {"x": "y"})]},
    'a {\n  M required\n  x="1"\n  y="2";\n};\nb{};': {"a": [("M", {"x": "1", "y": "2"})], "b": []},
    'a { M required; N optional x="\\"\\\\\\n"; };': {"a": [("M", {}), ("N", {"x": '"\\\n'})]},
    'a { M required x="${jaas.known}!"; };': {"a": [("M", {"x": "known value!"})]},
    'a { M required x="${{u}}${/}${v"; };': {"a": [("M", {"x": "${{u}}/${v"})]},
    "listener.a { M* required x=y*; };": {"listener.a": [("M*", {"x": "y*"})]},
    '"a" { "M" required "x"=y; };': {"a": [("M", {"x": "y"})]},
}
BAD_FILES = {
    'a { M required x="secret"; }': "line 1: ; is expected after the } of a section",
    'a {\n M required\n x="secret" };': "line 3: Value not specified",
    "a { M required x='secret'; };": "line 1: Value not specified",
    "\n\na M required;": "line 3: { is expected after the name of a section",
    "a { M needed; };": "line 1: Invalid login module control flag",
    "a {};\r\na {};": "line 2: there is another section of this name",
    'a {\rM required x="${secret}"; };': "line 2: an option names a system property",
    "{ };": "line 1: the name of a section is expected",
    "a {": "line 1: the name of a login module is expected",
    'a { M required\nx="secret"': "line 2: JAAS config entry not terminated",
}


@pytest.mark.parametrize("text", GOOD)
def test_modules_and_options(text: str) -> None:
    """Words, quotes, escapes and comments are read as by Java's StreamTokenizer."""
    assert [tuple(one) for one in parse_jaas(text)] == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_jaas_text(text: str) -> None:
    """Invalid JAAS text is refused, and the error contains no word of it."""
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", GOOD_FILES)
def test_sections_of_a_file(text: str) -> None:
    """A file is read as by Java's ConfigFile."""
    sections = parse_jaas_file(text, {"jaas.known": "known value"})
    found = {name: [tuple(one) for one in modules] for name, modules in sections.items()}
    assert found == GOOD_FILES[text]


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(text: str) -> None:
    """The error for an invalid file has the line number and no word of the file."""
    with pytest.raises(JaasError) as caught:
        parse_jaas_file(text, {})
    assert str(caught.value).startswith(BAD_FILES[text])
    assert "secret" not in str(caught.value)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_rendered_module_is_read_back(options: dict[str, str]) -> None:
    """A formatted module is parsed to the same options, whatever their characters."""
    module = LoginModule("a.B", options)
    assert parse_jaas(render_login_module(module)) == [module]


def test_a_module_hides_its_options() -> None:
    """The text of a module hides its options, which are passwords."""
    assert repr(LoginModule("a", {"password": "secret"})) == "LoginModule(a)"


@settings(max_examples=2000)
@given(st.text("ab1.-_$=;\"'\\/* \n09é\0", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any text is parsed or refused, without another exception and without an endless loop."""
    with suppress(JaasError):
        parse_jaas(text)
