"""JAAS text in a setting. The cases are checked against Kafka's JaasContext in tests/oracle."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_server.credentials.jaas import JaasError, LoginModule, parse_jaas

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


@pytest.mark.parametrize("text", GOOD)
def test_modules_and_options(text: str) -> None:
    """Words, quotes, escapes and comments are read as Java's StreamTokenizer reads them."""
    assert [tuple(one) for one in parse_jaas(text)] == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_jaas_text(text: str) -> None:
    """It is refused, and no word of it is in the message."""
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)


def test_a_module_hides_its_options() -> None:
    """They are passwords."""
    assert repr(LoginModule("a", {"password": "secret"})) == "LoginModule(a)"


@settings(max_examples=2000)
@given(st.text("ab1.-_$=;\"'\\/* \n09é\0", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised, and an end is found."""
    with suppress(JaasError):
        parse_jaas(text)
