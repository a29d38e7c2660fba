"""Token estimates, contexts, and what a budget buys."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import ConfigError
from coevo.models import Message, open_model
from coevo.models.budgeting import check_context, plan, worst_prompt_tokens
from coevo.models.scripted import ScriptedModel
from coevo.models.spec import parse_spec
from coevo.models.tokens import CHAT_OVERHEAD, MESSAGE_OVERHEAD, estimate_tokens

CHAT = (Message("system", "You improve programs."), Message("user", "def f(x):\n    return x + 1\n"))


def model(options: str = ""):
    return ScriptedModel(["x"], spec=parse_spec(f"scripted:x{options and ',' + options}"))


@given(st.text(), st.text())
def test_estimates_are_bounds_that_add_up(a, b):
    assert 0 <= estimate_tokens(a) <= len(a.encode("utf-8", "surrogatepass"))
    assert estimate_tokens(a + b) <= estimate_tokens(a) + estimate_tokens(b)
    assert (estimate_tokens(a) == 0) == (a == "")


@given(st.text(st.one_of(st.characters(max_codepoint=127), st.sampled_from("aaa  \n\n")), max_size=60))
def test_ascii_is_counted_as_any_other_text(text):
    assert estimate_tokens(text) + 2 == estimate_tokens(text + "é")


def test_estimates_of_lone_surrogates_and_other_scripts():
    assert estimate_tokens("\ud800") == 3
    assert estimate_tokens("日本") == 6
    assert estimate_tokens("1234") == 4 and estimate_tokens("}}])") == 4


def test_the_worst_prompt_grows_with_the_characters():
    sample = worst_prompt_tokens(model(), CHAT)
    text = estimate_tokens(CHAT[0].content) + estimate_tokens(CHAT[1].content)
    assert sample == text + CHAT_OVERHEAD + 2 * MESSAGE_OVERHEAD
    chars = sum(len(m.content) for m in CHAT)
    assert worst_prompt_tokens(model(), CHAT, worst_chars=chars) == sample
    assert worst_prompt_tokens(model(), CHAT, worst_chars=chars * 10) == sample * 10
    assert worst_prompt_tokens(model(), CHAT, worst_chars=1) == sample


def test_a_context_too_small_is_refused_with_both_numbers():
    check_context("m", 3000, 1000, 4000)
    check_context("m", 3000, 1000, None)
    with pytest.raises(ConfigError, match=r"4001 tokens cannot fit a context of 4000"):
        check_context("m", 4001, 10, 4000)
    with pytest.raises(
        ConfigError, match=r"3000 tokens and max_tokens = 1001 exceed a context of 4000; set max_tokens=1000"
    ):
        check_context("m", 3000, 1001, 4000)


def test_what_a_budget_buys_and_what_binds_it():
    priced = model("max_tokens=1000,price_in=1,price_out=4")
    whole = plan(priced, 2000, {"usd": 0.6, "tokens": 1e6, "evaluations": 500, "minutes": 2})
    assert (whole.cost_usd, whole.proposals, whole.bound_by) == (pytest.approx(0.006), 100, "usd")
    assert plan(priced, 2000, {"usd": None, "tokens": 1e6}).proposals == 333
    assert plan(priced, 2000, {"evaluations": 50, "proposals": 20}).bound_by == "proposals"
    assert "100 proposals (usd)" in whole.lines()[1] and "$0.0060" in whole.lines()[0]
    free = plan(model(), 2000, {"minutes": 2})
    assert free.proposals is None and "does not bound" in free.lines()[1]


def test_a_budget_below_one_proposal_is_refused():
    with pytest.raises(ConfigError, match=r"may take 3000 tokens.*budget has 2999"):
        plan(model("max_tokens=1000"), 2000, {"tokens": 2999})


def test_dollars_need_prices():
    unpriced = open_model("openai:m@https://api.example.com/v1", environ={})
    with pytest.raises(ConfigError, match="add price_in and price_out"):
        plan(unpriced, 10, {"usd": 1.0})
    assert plan(unpriced, 10, {"tokens": 1e5}).cost_usd is None
    own = open_model("openai:m@http://127.0.0.1:8000/v1", environ={})
    assert plan(own, 10, {"usd": 1.0}).proposals is None
    for each in (unpriced, own):
        each.close()


def test_the_estimate_is_above_a_real_tokenizer_on_real_sources():
    tokenizers = pytest.importorskip("tokenizers", reason="the tokenizers package is not installed (extra: local)")
    import gzip
    import json

    from coevo.models.weights import cache_folder

    files = sorted((cache_folder() / "models").glob("*/tokenizer.json"))
    if not files:
        pytest.skip("no converted model in the cache (run any local model once)")
    tokenizer = tokenizers.Tokenizer.from_file(str(files[0]))
    ratios = []
    for source in [*sorted(Path(json.__file__).parent.glob("*.py")), Path(gzip.__file__)]:
        text = source.read_text()
        ratios.append(estimate_tokens(text) / len(tokenizer.encode(text).ids))
    assert min(ratios) >= 1 and max(ratios) < 2.5, ratios
