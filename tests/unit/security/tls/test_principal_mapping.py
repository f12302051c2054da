"""Principal mapping rules, as in SslPrincipalMapper; tests/oracle compares with Kafka."""

from __future__ import annotations

import pytest

from coordinator_server.security.tls.principal_mapping import NoMatchingRuleError, PrincipalMapper

ALICE = "CN=Alice,OU=Users,O=Tests,C=DE"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", ALICE),
        ("RULE:^CN=(.*?),OU=Users.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=Users.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=Users.*$/$1/U", "ALICE"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/, DEFAULT", "Alice@Users"),
        ("RULE:^CN=Bob.*$/bob/, RULE:^CN=A.*$/a/", "a"),
        ("RULE:^CN=Bob.*$/bob/,DEFAULT", ALICE),
        # Java replaces every match: the whole text, and the empty match at the end.
        ("RULE:.*/x/", "xx"),
        ("RULE:^(?<who>CN=[^,]*).*$/${who}/", "CN=Alice"),
        # A group number has at most as many digits as the highest group; further digits are text.
        ("RULE:^CN=(.*?),.*$/$12/", "Alice2"),
        ("RULE:^CN=(.*?),.*$/$1$2/", "Alice$2"),
        (r"RULE:^CN=(.*?),.*$/\$1\\/", "$1\\"),
        ("RULE:^CN=(Bob)?(.*?),.*$/<$1$2>/", "<Alice>"),
        (r"RULE:^CN=(.*?),.*$/a\/$1/", "a/Alice"),
        ("RULE:^CN=(.*?),.*$/$0/", ALICE),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, expected: str) -> None:
    """The first rule that matches the whole subject determines the principal."""
    assert PrincipalMapper(rules).name(ALICE) == expected


def test_no_rule_matches() -> None:
    """If no rule matches, the error has the subject and the rules."""
    with pytest.raises(NoMatchingRuleError, match=r"RULE:x/y/ applies to CN=Alice"):
        PrincipalMapper("RULE:x/y/").name(ALICE)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("SOMETHING", "neither DEFAULT nor RULE"),
        ("RULE:a/b", "neither DEFAULT nor RULE"),
        ("RULE:a/b/LU", "neither DEFAULT nor RULE"),
        ("RULE:(a/b/", "missing \\)"),
        ("RULE:a/$1/", "no group 1"),
        ("RULE:a/$/", "names no group"),
        ("RULE:a/${b}/", "no group b"),
        # Kafka has a bug: it escapes the second reference at the position that it had before the
        # first replacement.
        ("RULE:(a)/$2$3/", "no group 3"),
    ],
)
def test_rules_that_cannot_be_used(rules: str, expected: str) -> None:
    """Invalid rules are refused at the start."""
    with pytest.raises(ValueError, match=expected):
        PrincipalMapper(rules)
