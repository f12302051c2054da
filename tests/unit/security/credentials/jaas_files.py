"""Valid and invalid JAAS files."""

from __future__ import annotations

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
