"""Errors, configs, programs, streams: the values everything stands on."""

import ast
import os
import random
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from coevo.config import Config, parse, read_yaml, with_sets
from coevo.errors import CoevoError, ConfigError, InfrastructureError, StoreError, UsageError, boundary, pick
from coevo.programs import Program, _by_token, normal_form
from coevo.streams import array_stream, stream, stream_seed


class Inner(Config):
    rate: float = Field(default=0.5, gt=0)
    """A rate."""


class Outer(Config):
    name: str
    inner: Inner = Inner()


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
"""A YAML file of half a kilobyte that says ten billion values."""


class TestErrors:
    def test_pick_suggests(self) -> None:
        with pytest.raises(ConfigError, match=r"unknown strategy 'ucbb'\. Did you mean 'ucb'\? Known: random, ucb"):
            pick("ucbb", {"ucb": 1, "random": 2}, kind="strategy")
        assert pick("ucb", {"ucb": 1}, kind="strategy") == 1

    def test_boundary_wraps_once(self) -> None:
        with pytest.raises(StoreError, match="saving: OSError: full"), boundary(StoreError, "saving"):
            raise OSError("full")
        with pytest.raises(ConfigError), boundary(StoreError, "saving"):
            raise ConfigError("mine")

    def test_exit_codes(self) -> None:
        codes = {cls.exit_code for cls in (CoevoError, UsageError, InfrastructureError)}
        assert codes == {1, 2}


class TestConfig:
    def test_unknown_key_names_it_and_suggests(self) -> None:
        with pytest.raises(ConfigError, match=r"run\.yaml: unknown setting 'inner\.rat'\. Did you mean 'rate'\?"):
            parse(Outer, {"name": "a", "inner": {"rat": 1}}, where="run.yaml")

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ({}, "setting 'name' is missing"),
            ({"name": 3}, "name = 3"),
            ({"name": "a", "inner": {"rate": -1}}, r"inner\.rate = -1"),
            ({"name": "a", "inner": {"rate": float("nan")}}, r"inner\.rate = nan"),
            ({"name": "a", "inner": 7}, "inner = 7"),
        ],
    )
    def test_bad_values_are_named(self, data: dict, text: str) -> None:
        with pytest.raises(ConfigError, match=text):
            parse(Outer, data, where="x")

    def test_sets(self) -> None:
        base = {"name": "a", "inner": {"rate": 0.1}}
        changed = with_sets(base, ["inner.rate=0.25", "name=b=c"])
        assert parse(Outer, changed, where="x") == Outer(name="b=c", inner=Inner(rate=0.25))
        assert base == {"name": "a", "inner": {"rate": 0.1}}

    def test_aliases_and_merges_are_plain_yaml(self, tmp_path) -> None:
        (tmp_path / "x.yaml").write_text("a: &a {n: 1, m: 2}\nb: {<<: *a, n: 3}\nc: [*a, *a]\n")
        assert read_yaml(tmp_path / "x.yaml") == {
            "a": {"n": 1, "m": 2},
            "b": {"m": 2, "n": 3},
            "c": [{"n": 1, "m": 2}] * 2,
        }

    @pytest.mark.parametrize("bad", ["rate", "=1", "name.deep=1", "a=[1", "a=" + "[" * 5000, "a=&x [*x]"])
    def test_bad_sets(self, bad: str) -> None:
        with pytest.raises(ConfigError, match="--set"):
            with_sets({"name": "a"}, [bad])

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("a: [", "not valid YAML"),
            ("- 1", "mapping"),
            ("a: \x00", "YAML"),
            ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
            ("a: &x {b: *x}", r"line 1: an alias stands inside what it names"),
            ("a: &x [[*x]]", r"an alias stands inside what it names"),
            ("a: 1\nb: 2\na: 3", r"line 3: 'a' is given twice"),
            ("c: {n: 1, 'n': 2}", r"'n' is given twice"),
            ("a: 2020-02-31", "not valid YAML"),
            (BOMB, r"its aliases make it [\d,]+ values"),
        ],
    )
    def test_bad_yaml(self, tmp_path, text: str, match: str) -> None:
        (tmp_path / "x.yaml").write_text(text)
        with pytest.raises(ConfigError, match=match):
            read_yaml(tmp_path / "x.yaml")

    def test_missing_yaml(self, tmp_path) -> None:
        with pytest.raises(ConfigError, match="No such file"):
            read_yaml(tmp_path / "none.yaml")

    def test_what_is_no_text(self, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A pipe that nobody writes to would hold us for ever, and /dev/zero fills all memory."""
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "binary").write_bytes(b"a: \xff")
        monkeypatch.setattr("coevo.config.MAX_TEXT", 100)
        for name, match in (
            (tmp_path / "pipe", "is a pipe"),
            (Path("/dev/zero"), "holds more than"),
            (tmp_path / "binary", r"not UTF-8 text \(byte 3\)"),
            (tmp_path, "directory"),
            (Path("a\0b"), "cannot read"),
        ):
            with pytest.raises(ConfigError, match=match):
                read_yaml(name)

    def test_a_byte_order_mark_and_a_shells_substitution(self, tmp_path) -> None:
        (tmp_path / "bom").write_bytes(b"\xef\xbb\xbfa: 1\r\n")
        assert read_yaml(tmp_path / "bom") == {"a": 1}
        read, write = os.pipe()
        os.write(write, b"a: 2")
        os.close(write)
        assert read_yaml(Path(f"/dev/fd/{read}")) == {"a": 2}
        os.close(read)


SAMPLE = textwrap.dedent(
    r'''
    """Doc."""
    import math  # comment

    def f(x, *, y=1):
        """Doc # not a comment."""
        s = "a # b" + 'c\'d'  # but this is
        if x is not y and x<y or not - - x:
            return [x  ,  y] , 1 .real, x--y, "a" "b"

        for i in range( 3 ) :
            s += r"\\d" + f"{i}"
        return s \
            + "z"
    '''
)


PIECES = (
    *("'", '"', "'''", '"""', "#", "\n", " ", "  ", "\t", "\\", "\r", "\f", "\0", "\\\n", "\n    ", " \n", "\u3000"),
    *("a", "rb", "1", ".", "+", "-", "*", "=", "(", "\u00e9"),
)


class TestPrograms:
    def test_cosmetics_do_not_change_the_id(self) -> None:
        noisy = (
            "# top\n\n"
            + SAMPLE.replace(":\n", ":   \n").replace("x<y", "x < y").replace("  # comment", "")
            + "\n\n# end\n"
        )
        assert Program.of(noisy).id == Program.of(SAMPLE).id
        assert Program.of(SAMPLE.replace("\n", "\r\n")).id == Program.of(SAMPLE).id

    @pytest.mark.parametrize(
        ("old", "new"),
        [('"a # b"', '"a #b"'), ("- - x", "-x"), ("range( 3 )", "range(4)"), ('"a" "b"', '"ab"'), ("not y", "noty")],
    )
    def test_meaning_changes_the_id(self, old: str, new: str) -> None:
        assert old in SAMPLE
        assert Program.of(SAMPLE.replace(old, new)).id != Program.of(SAMPLE).id

    def test_normal_form_means_the_same(self) -> None:
        assert ast.dump(ast.parse(normal_form(SAMPLE))) == ast.dump(ast.parse(SAMPLE))

    def test_normal_form_of_real_modules_means_the_same(self) -> None:
        for module in (textwrap, ast, random):
            source = Path(str(module.__file__)).read_text(encoding="utf-8")
            form = normal_form(source)
            assert ast.dump(ast.parse(form)) == ast.dump(ast.parse(source))
            assert normal_form(form) == form

    @given(st.text(max_size=300))
    def test_normal_form_is_total_and_idempotent_on_lines(self, text: str) -> None:
        form = normal_form(text)
        assert len(form) <= len(text) + 2
        Program.of(text).id  # noqa: B018

    @given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
    def test_normal_form_is_what_the_tokens_say(self, text: str) -> None:
        assert normal_form(text) == _by_token(text.replace("\r\n", "\n").replace("\r", "\n"))

    @pytest.mark.parametrize("gap", ["\\\n", " \\\n", "\\\n  ", " \\\n \\\n\t", " \f ", "\f\\\n"])
    def test_continued_lines_keep_words_apart(self, gap: str) -> None:
        assert normal_form(f"x = not{gap}y\n") == normal_form("x = not y") != normal_form("x = noty")
        assert normal_form(f"x ={gap}y\n") == normal_form("x = y")

    def test_several_files(self, tmp_path) -> None:
        program = Program.of({"program.py": "from pkg.a import f\n", "pkg/a.py": "f = 1\n"})
        program.write(tmp_path / "p")
        assert Program.read(tmp_path / "p") == program
        assert program.with_source("x = 1\n").id != program.id
        assert Program.of({"program.py": "", "a.py": "b"}).id != Program.of({"program.py": "", "b.py": "b"}).id

    @pytest.mark.parametrize(
        "name",
        [
            *("../x.py", "/etc/x.py", "a/../../x.py", "a\0.py", "a\\b.py", "", ".", "./program.py", "x/", "a//b.py"),
            *("\ud800.py", "a\nb.py", "x" * 251, "program.py/x.py"),
        ],
    )
    def test_paths_stay_inside(self, name: str) -> None:
        with pytest.raises(UsageError, match="relative path"):
            Program.of({"program.py": "", name: ""})

    def test_missing_main_and_size(self, tmp_path) -> None:
        with pytest.raises(UsageError, match=r"needs a file 'program\.py'"):
            Program.of({"a.py": ""})
        with pytest.raises(UsageError, match="over the limit"):
            Program.of("x" * (1 << 20) + "y")
        with pytest.raises(UsageError, match=r"1,114 files and folders is over the limit of 1,000"):
            Program.of({"program.py": "", **{f"{n}/{'a/' * 99}x.py": "" for n in range(11)}, "b.py": ""})
        with pytest.raises(UsageError, match="no program at"):
            Program.read(tmp_path / "none")
        (tmp_path / "b.py").write_bytes(b"\xff\xfe")
        with pytest.raises(UsageError, match="not UTF-8"):
            Program.read(tmp_path / "b.py")


class TestStreams:
    def test_streams_depend_on_their_name_only(self) -> None:
        first = stream(1, "parent", 7).random()
        stream(1, "other", 3).random()
        assert stream(1, "parent", 7).random() == first
        assert stream(1, "parent", 8).random() != first
        assert stream_seed(1, "a", 1) != stream_seed(1, "a", "1")
        assert np.array_equal(array_stream(3, "x").random(4), array_stream(3, "x").random(4))
