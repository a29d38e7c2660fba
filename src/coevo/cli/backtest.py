"""`coevo backtest`: a proposed reward, filter, limit, diagnostic or rule on recorded rollouts."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.backtest import (
        Admission,
        DiagnosticBacktest,
        FilterBacktest,
        LimitBacktest,
        RewardBacktest,
        RuleBacktest,
    )
    from coevo.backtest.candidates import Screening

MODES = ("--reward, --advantage", "--filter", "--max-tokens", "--turns", "--rule", "--diagnostic", "--screen")


def backtest(
    source: Annotated[str, typer.Argument(help="A run, or rollouts of any trainer (file or folder).")],
    reward: Annotated[
        list[str] | None,
        typer.Option("--reward", help="Setting of the reward: 'parts={search_gain: 1}', tolerance=0.02. Repeatable."),
    ] = None,
    advantage: Annotated[
        list[str] | None, typer.Option("--advantage", help="Setting of the advantage: group_mean, k=4. Repeatable.")
    ] = None,
    filter: Annotated[
        list[str] | None, typer.Option("--filter", help="Setting of the filter: snr, share=0.5. Repeatable.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Replay this limit on tokens.")] = None,
    turns: Annotated[int | None, typer.Option("--turns", help="Replay this limit on turns.")] = None,
    rule: Annotated[str | None, typer.Option("--rule", help="Id of a rule: when would it have fired?")] = None,
    diagnostic: Annotated[
        str | None,
        typer.Option(
            "--diagnostic", help="Id of a diagnostic, a term (docs/backtest.md), or FILE.py with measure(columns)."
        ),
    ] = None,
    screen: Annotated[bool, typer.Option("--screen", help="Try many terms on the branches.")] = False,
    branch: Annotated[
        list[str] | None,
        typer.Option("--branch", help="A branch of known outcome: good=SOURCE or bad=SOURCE. Repeatable."),
    ] = None,
    outcome: Annotated[
        str, typer.Option("--outcome", help="What became of SOURCE itself: good, bad, unknown.")
    ] = "unknown",
    levels: Annotated[str | None, typer.Option("--levels", help="Of a proposed diagnostic: WARN,CRITICAL.")] = None,
    admit: Annotated[
        bool, typer.Option("--admit", help="Decide on the diagnostic; ends with 4 where it is refused.")
    ] = False,
    split: Annotated[
        str | None, typer.Option("--split", help="Rollouts to replay; train, where there are such.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of permutations, where there are too many to try all.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Replay a proposed change on recorded rollouts, before any training.

    A reward (with advantage and filter), a filter, or a limit is replayed on SOURCE; a diagnostic or a rule on SOURCE and every --branch.
    """
    from coevo.errors import UsageError

    pays = bool(reward or advantage)
    given = (pays, bool(filter) and not pays, max_tokens is not None, turns is not None, rule, diagnostic, screen)
    asked = [name for name, value in zip(MODES, given, strict=True) if value]
    if len(asked) != 1:
        raise UsageError(f"say one thing to replay: {', '.join(MODES)}; given: {', '.join(asked) or 'none'}")
    if admit and not diagnostic:
        raise UsageError("--admit decides on a --diagnostic; name one")
    if reward or advantage or filter:
        _print(_config(source, split, reward or [], advantage or [], filter or []), json)
    elif max_tokens is not None or turns is not None:
        from coevo.backtest import backtest_limit
        from coevo.backtest.opening import open_rollouts

        _print(backtest_limit(open_rollouts(source, split=split), max_tokens=max_tokens, turns=turns), json)
    else:
        _branches(source, outcome, branch or [], rule, diagnostic, levels, admit, seed, json)


def _config(source: str, split: str | None, reward: list[str], advantage: list[str], filter: list[str]) -> Any:
    from coevo.backtest import backtest_filter, backtest_reward
    from coevo.backtest import opening as o

    frame, trained = o.open_rollouts(source, split=split), o.trained_of(source)
    sieve = o.filter_from(filter, trained) if filter else None
    if not reward and not advantage:
        assert sieve is not None
        return backtest_filter(frame, sieve)
    pushed = o.advantage_from(advantage, trained) if advantage else None
    return backtest_reward(frame, o.reward_from(reward, trained), pushed, sieve, trained=trained)


def _branches(
    source: str,
    outcome: str,
    branch: list[str],
    rule: str | None,
    diagnostic: str | None,
    levels: str | None,
    admit: bool,
    seed: int,
    json: bool,
) -> None:
    from coevo import backtest as b
    from coevo.backtest import opening as o
    from coevo.diagnostics.registry import shipped
    from coevo.errors import GateBlocked

    branches = [o.past_of(one) for one in (f"{outcome}={source}", *branch)]
    if rule is not None:
        _print(b.backtest_rule(o.rule_of(rule), branches, seed=seed), json)
    elif diagnostic is None:
        _print(b.screen(branches, seed=seed), json)
    else:
        with ExitStack() as stack:
            bench = stack.enter_context(b.Bench())
            made, family = o.diagnostic_from(diagnostic, branches, levels=o.levels_from(levels), bench=bench, seed=seed)
            if not admit:
                _print(b.backtest_diagnostic(made, branches, shipped(), seed=seed, family=family), json)
                return
            others = {id: one for id, one in shipped().items() if id != made.id}
            found = b.admit(made, branches, others, seed=seed, family=family)
            _print(found, json)
            if not found.admitted:
                raise GateBlocked(f"the diagnostic is refused: {found.reason}")


def _print(found: Any, json: bool) -> None:
    if json:
        output.print_json(found.to_dict())
        return
    _SHOW[type(found).__name__](found)


def _reward(found: RewardBacktest) -> None:
    before, after = found.before, found.after
    rows = [(_TITLES[name], getattr(before, name), getattr(after, name)) for name in before._fields]
    rows += [
        (f"pairs that {name} with truth", getattr(found.order.before, name), getattr(found.order.after, name))
        for name in ("agree", "invert", "tie")
    ]
    rows.append(("order against truth", found.order.before.score, found.order.after.score))
    output.print_table(("", "recorded", "proposed"), _rounded(rows))
    headers = ("rollouts that are, or have", "count", "reward, recorded", "proposed", "advantage, recorded", "proposed")
    cells = [
        (one.about, one.rollouts, one.reward_before, one.reward_after, one.advantage_before, one.advantage_after)
        for one in found.behaviours
    ]
    output.print_table(headers, _rounded(cells))
    _notes(found.notes, found.reasons)
    facts = {"compared": f"{found.compared} of {found.rollouts} rollouts", "groups": found.groups}
    facts |= {"revived": found.revived, "died": found.died}
    facts |= {"mended_pairs": found.order.mended, "broken_pairs": found.order.broken}
    facts["recomputes_recorded"] = found.agreement
    rise = found.before.on_gains is not None and found.after.on_gains is not None
    _facts(facts, found.prediction, REWARD if rise else LIVE)


def _filter(found: FilterBacktest) -> None:
    about = "truth" if found.truth_all is not None else "reward"
    output.print_table(("tasks", f"mean {about} from", "to", "groups", "kept"), _rounded(found.bands))
    rows = [
        (name, getattr(found, f"{name}_all"), getattr(found, f"{name}_kept")) for name in ("spread", "reward", "truth")
    ]
    output.print_table(("mean of a group's", "over all", "over kept"), _rounded(rows))
    _notes(found.notes)
    names = ("groups", "kept", "dead", "live_dropped", "kept_share", "recorded_kept", "variance_kept", "bias")
    _facts({name: getattr(found, name) for name in names}, found.prediction, FILTER)


def _limit(found: LimitBacktest) -> None:
    rows = [(cut.name, cut.rollouts, cut.cut, cut.share) for cut in (found.all, found.rewarded, found.true)]
    output.print_table(("rollouts", "count", "cut", "share cut"), _rounded(rows))
    _notes(found.notes)
    facts = {"limit": found.limit, "tokens": f"{found.tokens:,.0f}", "tokens_saved": f"{found.tokens_saved:,.0f}"}
    lost = "rollouts of true gain" if found.true.rollouts else "rewarded rollouts"
    _facts({**facts, "saved_share": found.saved_share}, found.prediction, LIMIT.format(lost))


def _rule(found: RuleBacktest) -> None:
    rows = [(c.branch, c.known, sum(c.fired), len(c.looks), c.first, c.share_left) for c in found.courses]
    output.print_table(
        ("branch", "known to be", "fired at", "of looks", "first at step", "share of the run still to come"),
        _rounded(rows),
    )
    _notes((), {f"{id} says nothing": count for id, count in found.unknown.items()})
    s = found.separation
    facts = {"rule": found.rule, "hits": len(found.hits), "false_alarms": len(found.false_alarms), "p": s.p}
    _facts({**facts, "auc": s.auc}, s.auc, SEPARATION)


def _diagnostic(found: DiagnosticBacktest) -> None:
    output.print_table(("branch", "known to be", "value", "level", "note"), _rounded(found.table.entries))
    strongest = sorted(found.correlations, key=lambda id: -abs(found.correlations[id]))[:5]
    if strongest:
        rows = [(id, found.correlations[id], found.aucs.get(id)) for id in strongest]
        output.print_table(("nearest diagnostic", "rank correlation", "its auc"), _rounded(rows))
    s = found.separation
    facts = {"diagnostic": found.table.diagnostic, "good": s.good, "bad": s.bad, "auc": s.auc, "p": s.p}
    facts |= {"missed_by_others": len(found.missed), "partial_auc": found.partial_auc, "note": found.note}
    _facts(facts, s.auc, SEPARATION)


def _admission(found: Admission) -> None:
    _diagnostic(found.backtest)
    output.print_table(("check", "passed", "found"), [(c.name, c.passed, c.says) for c in found.checks])
    shown = f"{found.levels.warn:.4g},{found.levels.critical:.4g}{' (fitted)' if found.fitted else ''}"
    output.print_facts({"levels": shown, "admitted": found.admitted, "reason": found.reason})


def _screening(found: Screening) -> None:
    rows = [(str(one.term), one.auc, one.p, one.levels.warn, one.levels.critical) for one in found.best]
    output.print_table(("term", "auc", "p", "warn", "critical"), _rounded(rows))
    if not found.tried:
        print("nothing can be screened without a good and a bad branch: --branch good=SOURCE --branch bad=SOURCE")
    holding = sum(one.p <= 0.05 for one in found.best)
    output.print_facts(
        {"tried": f"{found.tried} terms", "holding": f"{holding} (p at most 0.05, of the best of all tried)"}
    )


def _notes(notes: Any, reasons: Any = None) -> None:
    for reason, count in (reasons or {}).items():
        print(f"note: {count} x {reason}")
    for note in notes:
        print(f"note: {note}")


def _facts(facts: dict[str, Any], prediction: float | None, means: str) -> None:
    """Numbers to four digits, each with what it is of; at last the one that is held against what comes of the change, in a sentence."""
    for name, value in facts.items():
        if value is not None:
            shown = f"{value:.4g}" if isinstance(value, float) else value
            print(f"{name}: {shown}{f' ({MEANS[name]})' if name in MEANS else ''}")
    print(f"prediction: {'unknown' if prediction is None else f'{prediction:.4g}'} ({means})")


def _rounded(rows: Any) -> list[list[Any]]:
    return [[round(cell, 4) if isinstance(cell, float) else cell for cell in row] for row in rows]


MEANS = {
    "revived": "dead groups, in which all are paid alike, that would give a signal again",
    "died": "live groups that would be dead",
    "mended_pairs": "of one group, which the recorded reward had the wrong way round against truth, and the proposed one has not",
    "broken_pairs": "the other way round",
    "recomputes_recorded": "share of the recorded rewards that this code computes again, to 1e-9; under 1 trust the rest less",
    "kept": "groups that the filter lets through",
    "dead": "groups without a spread of rewards",
    "live_dropped": "groups with one, which it drops",
    "kept_share": "of the groups",
    "recorded_kept": "share of the groups that were kept then",
    "variance_kept": "share of the squared deviations of rewards within groups that is left to learn from",
    "bias": "mean reward of what is kept less that of all: a curve of kept rewards would lie so much too high",
    "saved_share": "of all tokens sampled",
    "hits": "bad branches on which it fired",
    "false_alarms": "good ones",
    "auc": "chance that a bad branch lies on the bad side of a good one; 0.5: it tells nothing",
    "p": "chance of such a separation, or a better one, were outcomes dealt out by lot",
    "missed_by_others": "bad branches that no existing diagnostic caught",
    "partial_auc": "the same with those alone for the bad ones",
}
"""What a number is of."""
REWARD = (
    "in -1 to 1: rise of the share of upward weight that lies on rollouts of true gain. Above 0 it pays more for what is truly better; "
    "what a policy would learn from it, only training tells"
)
LIVE = "in -1 to 1: rise of the share of groups that give a signal; truth, or the parent's fitness, is not known, so whether it pays for the right thing is not told"
FILTER = "share of the signal that is kept over share of the groups: above 1 it drops the groups that teach least, under 1 those that teach most"
LIMIT = "in -1 to 1: share of tokens saved less share of {} cut. Above 0 it saves more than it costs, if replies stay as they are"
SEPARATION = "the auc: how well it tells bad branches from good ones; p says whether that can be luck"
_TITLES = {
    "dead_groups": "dead groups",
    "kept_groups": "groups kept by the filter",
    "reward_mean": "mean reward",
    "correlation": "rank correlation with truth",
    "advantage": "mean |advantage|",
    "positive": "share pushed up",
    "effective": "effective sample size, as a share",
    "aligned": "share of weight along the truth",
    "on_gains": "share of upward weight on true gains",
}
_SHOW = {
    "RewardBacktest": _reward,
    "FilterBacktest": _filter,
    "LimitBacktest": _limit,
    "RuleBacktest": _rule,
    "DiagnosticBacktest": _diagnostic,
    "Admission": _admission,
    "Screening": _screening,
}
