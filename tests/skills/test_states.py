"""What is believed of a skill, as a function of its uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.skills.reading import read_skill
from coevo.skills.retrieval import retrieve
from coevo.skills.running import Scripts
from coevo.skills.states import TRUST_ALPHA, offered, record_of, state_of
from coevo.skills.types import Origin, Outcome, SkillState, Use
from tests.skills.making import findings, page, skill_folder


def use(
    outcome: Outcome,
    context: str = "code/mini",
    gain: float | None = 0.05,
    *,
    skill: str = "halve-rate",
    lab: str = "l",
) -> Use:
    settled = outcome not in (Outcome.FIRED, Outcome.APPLIED) and gain is not None
    return Use(skill, outcome, context, lab, 1, gain if settled else None, 0.0 if settled else None)


HELPED = [use(Outcome.HELPED, context) for context in ("code/mini", "code/mini", "math/mini", "code/big")]


@pytest.mark.parametrize(
    ("uses", "hold", "state", "said"),
    [
        ([], False, SkillState.CANDIDATE, "its cases do not hold"),
        ([], True, SkillState.VALIDATED, "has not helped in a real run yet"),
        ([use(Outcome.FIRED), use(Outcome.APPLIED)], True, SkillState.VALIDATED, "has not helped"),
        ([use(Outcome.HELPED)] * 5, True, SkillState.VALIDATED, "in one context only (code/mini)"),
        (HELPED[:3], True, SkillState.VALIDATED, "3 paired uses, mean +0.05, p = 0.12"),
        (HELPED, True, SkillState.TRUSTED, "helped 4 of 4 times, in code/mini, math/mini, code/big"),
        (HELPED, False, SkillState.CANDIDATE, "its cases do not hold"),
        ([*HELPED, use(Outcome.INVALID)], True, SkillState.DEMOTED, "was invalid once"),
        ([use(Outcome.HURT, gain=-0.1)], True, SkillState.DEMOTED, "hurt 1 times and helped 0"),
        ([use(Outcome.HURT, gain=-0.1)], False, SkillState.DEMOTED, "hurt 1 times"),
        ([use(Outcome.HURT, gain=-0.1), use(Outcome.HELPED)], True, SkillState.VALIDATED, "one context only"),
        ([use(Outcome.HELPED, c, None) for c in "abcd"], True, SkillState.VALIDATED, "0 paired uses"),
        ([use(Outcome.HELPED, c, float("nan")) for c in "abcd"], True, SkillState.VALIDATED, "0 paired uses"),
    ],
)
def test_states(uses: list[Use], hold: bool, state: SkillState, said: str) -> None:
    found = state_of(uses, cases_hold=hold, origin=Origin.SHIPPED)
    assert found.state is state
    assert said in "; ".join(found.reasons)


def test_inconclusive_uses_count_against_trust() -> None:
    diluted = [*HELPED, *(use(Outcome.INCONCLUSIVE, gain=-0.05) for _ in range(3))]
    assert state_of(diluted, cases_hold=True).state is SkillState.VALIDATED


def test_a_gain_that_the_control_has_too_is_none() -> None:
    same = [u._replace(control=u.difference) for u in HELPED]
    assert state_of(same, cases_hold=True).state is SkillState.VALIDATED


def test_a_tombstone_stays() -> None:
    assert state_of(HELPED, cases_hold=True, tombstone="unsafe").reasons == ("unsafe",)


USES = st.lists(
    st.builds(
        lambda o, c, g: use(o, c, g),
        st.sampled_from(list(Outcome)),
        st.sampled_from(["a/x", "b/x", "c/y"]),
        st.one_of(st.none(), st.floats(-1, 1)),
    ),
    max_size=12,
)


@given(USES, st.booleans())
def test_the_state_is_a_function_of_counts_and_never_flatters(uses: list[Use], hold: bool) -> None:
    found = state_of(uses, cases_hold=hold)
    assert found == state_of(uses, cases_hold=hold)
    assert found.reasons
    record = found.record
    assert 0 < record.chance < 1
    if found.state is SkillState.TRUSTED:
        assert hold and record.helped and len(record.contexts) >= 2 and record.hurt <= record.helped
        assert not record.invalid and len(record.gains) >= 4
    worse = state_of([*uses, use(Outcome.INVALID)], cases_hold=hold)
    assert worse.state is SkillState.DEMOTED
    assert state_of(list(reversed(uses)), cases_hold=hold).state is found.state


@given(USES)
def test_helping_raises_the_chance_and_hurting_lowers_it(uses: list[Use]) -> None:
    now = record_of(uses).chance
    assert record_of([*uses, use(Outcome.HELPED)]).chance > now > record_of([*uses, use(Outcome.HURT)]).chance
    assert record_of([*uses, use(Outcome.FIRED)]).chance == now
    assert TRUST_ALPHA < 0.125  # Three pairs can never be enough.


def test_offered_at_home_abroad_and_where_it_hurt(tmp_path: Path) -> None:
    scoped = read_skill(skill_folder(tmp_path, {"SKILL.md": page("halve-rate", fields="metadata: {scope: math}\n")}))
    anywhere = read_skill(skill_folder(tmp_path, {"SKILL.md": page("any")}, name="any"))
    assert offered(anywhere, "code/mini", [])[0]
    assert offered(scoped, "math/big", [])[0]
    assert offered(scoped, "code/mini", []) == (
        False,
        "it is for math, not code, and has helped in 0 contexts; 2 are needed to carry it over",
    )
    assert offered(scoped, "code/mini", [], any_domain=True)[0]
    two = [use(Outcome.HELPED, "math/a"), use(Outcome.HELPED, "math/b")]
    assert offered(scoped, "code/mini", two)[0]
    assert not offered(scoped, "code/mini", two[:1] * 3)[0]
    assert not offered(scoped, "code/mini", [u._replace(skill="other") for u in two])[0]
    hurt = [use(Outcome.HURT, "math/a"), *[use(Outcome.HELPED, c) for c in ("math/b", "math/c", "x/y")]]
    assert not offered(scoped, "math/a", hurt)[0]
    assert offered(scoped, "math/b", hurt)[0]


def test_retrieval_puts_the_trusted_first_and_the_demoted_nowhere(tmp_path: Path, scripts: Scripts) -> None:
    names = ("broken-cases", "demoted", "hopeful", "plain-one", "silent", "trusted", "buried", "foreign")
    silent = 'print(\'{"fires": false, "why": ""}\')\n'
    wrong = "import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'fires': True, 'why': 'always'}))\n"
    special = {"silent": {"scripts/trigger.py": silent}, "broken-cases": {"scripts/trigger.py": wrong}}
    special["foreign"] = {"SKILL.md": page("foreign", fields="metadata: {scope: math}\n")}
    skills = [
        read_skill(skill_folder(tmp_path, {"SKILL.md": page(name), **special.get(name, {})}, name=name))
        for name in names
    ]
    uses = [u._replace(skill="trusted") for u in HELPED]
    uses += [use(Outcome.HURT, gain=-0.1, skill="demoted"), use(Outcome.HELPED, skill="hopeful")]
    buried = {next(s.digest for s in skills if s.name == "buried"): "a person said so"}
    given_ = (findings(dead_groups="critical"), skills, uses, "code/mini")
    found = retrieve(*given_, scripts=scripts, tombstones=buried)
    assert [(f.skill.name, f.state) for f in found] == [
        ("trusted", SkillState.TRUSTED),
        ("hopeful", SkillState.VALIDATED),
        ("plain-one", SkillState.VALIDATED),
    ]
    assert all(f.trigger.why == "dead groups" for f in found)
    anywhere = retrieve(*given_, scripts=scripts, tombstones=buried, any_domain=True)
    assert [f.skill.name for f in anywhere] == ["trusted", "hopeful", "foreign", "plain-one"]
    assert retrieve(findings(), skills, uses, "code/mini", scripts=scripts) == []
