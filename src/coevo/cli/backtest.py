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
    headers = ("rollouts that", "count", "reward", "proposed", "advantage", "proposed")
    cells = [
        (one.about, one.rollouts, one.reward_before, one.reward_after, one.advantage_before, one.advantage_after)
        for one in found.behaviours
    ]
    output.print_table(headers, _rounded(cells))
    _notes(found.notes, found.reasons)
    facts = {
        "compared": f"{found.compared} of {found.rollouts} rollouts",
        "groups": found.groups,
        "revived": found.revived,
        "died": found.died,
    }
    pairs = {"mended_pairs": found.order.mended, "broken_pairs": found.order.broken}
    output.print_facts({**facts, **pairs, "recomputes_recorded": found.agreement, "prediction": found.prediction})


def _filter(found: FilterBacktest) -> None:
    output.print_table(("tasks", "mean from", "to", "groups", "kept"), _rounded(found.bands))
    rows = [
        (name, getattr(found, f"{name}_all"), getattr(found, f"{name}_kept")) for name in ("spread", "reward", "truth")
    ]
    output.print_table(("mean", "of all", "of kept"), _rounded(rows))
    _notes(found.notes)
    output.print_facts(
        {
            "groups": found.groups,
            "kept": found.kept,
            "dead": found.dead,
            "live_dropped": found.live_dropped,
            "kept_share": found.kept_share,
            "recorded_kept": found.recorded_kept,
            "variance_kept": found.variance_kept,
            "bias": found.bias,
        }
    )


def _limit(found: LimitBacktest) -> None:
    rows = [(cut.name, cut.rollouts, cut.cut, cut.share) for cut in (found.all, found.rewarded, found.true)]
    output.print_table(("rollouts", "count", "cut", "share"), _rounded(rows))
    _notes(found.notes)
    output.print_facts(
        {
            "limit": found.limit,
            "tokens": found.tokens,
            "tokens_saved": found.tokens_saved,
            "saved_share": found.saved_share,
        }
    )


def _rule(found: RuleBacktest) -> None:
    rows = [(c.branch, c.known, sum(c.fired), len(c.looks), c.first, c.share_left) for c in found.courses]
    output.print_table(("branch", "known", "fired", "looks", "first at step", "share still to come"), _rounded(rows))
    _notes((), {f"{id} says nothing": count for id, count in found.unknown.items()})
    s = found.separation
    output.print_facts(
        {"rule": found.rule, "hits": len(found.hits), "false_alarms": len(found.false_alarms), "auc": s.auc, "p": s.p}
    )


def _diagnostic(found: DiagnosticBacktest) -> None:
    output.print_table(("branch", "known", "value", "level", "note"), _rounded(found.table.entries))
    strongest = sorted(found.correlations, key=lambda id: -abs(found.correlations[id]))[:5]
    if strongest:
        rows = [(id, found.correlations[id], found.aucs.get(id)) for id in strongest]
        output.print_table(("nearest diagnostic", "rank correlation", "its auc"), _rounded(rows))
    s = found.separation
    output.print_facts(
        {
            "diagnostic": found.table.diagnostic,
            "good": s.good,
            "bad": s.bad,
            "auc": s.auc,
            "p": s.p,
            "missed_by_others": len(found.missed),
            "partial_auc": found.partial_auc,
            "note": found.note,
        }
    )


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
    output.print_facts({"tried": found.tried, "holding": sum(one.p <= 0.05 for one in found.best)})


def _notes(notes: Any, reasons: Any = None) -> None:
    for reason, count in (reasons or {}).items():
        print(f"note: {count} x {reason}")
    for note in notes:
        print(f"note: {note}")


def _rounded(rows: Any) -> list[list[Any]]:
    return [[round(cell, 4) if isinstance(cell, float) else cell for cell in row] for row in rows]


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
