"""JAAS text in a setting. tests/oracle checks the cases against Kafka's JaasContext."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_server.security.credentials.jaas import (
    JaasError,
    LoginModule,
    parse_jaas,
    parse_jaas_file,
    render_login_module,
)
from tests.unit.security.credentials.jaas_files import BAD, BAD_FILES, GOOD, GOOD_FILES


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
