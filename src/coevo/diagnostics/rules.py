"""What several findings together mean, and which kinds of interventions that suggests. Rules cite diagnostics by id; one that cites a diagnostic
which is not there does not apply.

`suggests` are values of `coevo.lab.types.Family`, the most promising first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coevo.diagnostics.types import Finding, Level, Rule

Findings = Mapping[str, Finding]
_BAD = (Level.WARN, Level.CRITICAL)


def _all(*ids: str) -> Callable[[Findings], bool]:
    return lambda findings: all(findings[id].level in _BAD for id in ids)


def _any(*ids: str) -> Callable[[Findings], bool]:
    return lambda findings: any(findings[id].level in _BAD for id in ids)


def _only(ids: tuple[str, ...], fine: tuple[str, ...]) -> Callable[[Findings], bool]:
    """All of `ids` speak and all of `fine` are known to be fine."""
    return lambda f: all(f[id].level in _BAD for id in ids) and all(f[id].level is Level.OK for id in fine)


RULES: tuple[Rule, ...] = (
    Rule(
        "leak",
        ("reward-truth-gap", "public-hidden-gap"),
        _all("reward-truth-gap", "public-hidden-gap"),
        "The reward rises on what it can see and not on what it cannot: the policy exploits the visible tests. The gain is not real.",
        ("data", "reward"),
        Level.CRITICAL,
    ),
    Rule(
        "thin-tests",
        ("false-passes",),
        _all("false-passes"),
        "Programs pass what is shown and are wrong: the shown tests do not tell right from wrong, and a reward of passes pays for guessing them.",
        ("data", "reward"),
        Level.CRITICAL,
    ),
    Rule(
        "shaped-reward-hack",
        ("saturated-part", "reward-truth-gap", "reward-spread", "unfaithful-part"),
        lambda f: (
            f["saturated-part"].level in _BAD
            and any(f[id].level in _BAD for id in ("reward-truth-gap", "reward-spread", "unfaithful-part"))
        ),
        "A summand of the reward is earned by everyone while the truth stays behind: the policy learned the bonus instead of the task.",
        ("reward",),
        Level.CRITICAL,
    ),
    Rule(
        "wrong-reward",
        ("reward-truth-gap", "reward-truth-agreement"),
        _all("reward-truth-gap", "reward-truth-agreement"),
        "Within one group the better paid rollouts are not the better ones, and training follows the pay: the reward measures something else.",
        ("reward", "checkpoint"),
        Level.CRITICAL,
    ),
    Rule(
        "format-only",
        ("format-meaning-gap", "learning"),
        _all("format-meaning-gap"),
        "Replies became readable and not right. Until meaning rises, a gain in reward is the price of the format.",
        ("reward", "episode"),
    ),
    Rule(
        "reward-too-coarse",
        ("dead-groups", "reward-ties", "solved-groups", "hopeless-groups"),
        lambda f: (
            f["dead-groups"].level in _BAD
            and not any(f[id].level in _BAD for id in ("solved-groups", "hopeless-groups"))
        ),
        "Groups are dead or tied because the reward knows too few levels, not because the tasks are all solved or all hopeless.",
        ("reward", "filter"),
    ),
    Rule(
        "too-easy",
        ("dead-groups", "solved-groups"),
        _all("solved-groups"),
        "Most groups without a signal are solved by all of their rollouts: these tasks teach nothing any more.",
        ("data", "filter"),
    ),
    Rule(
        "too-hard",
        ("dead-groups", "hopeless-groups", "reward-collapse"),
        lambda f: f["hopeless-groups"].level in _BAD and f["reward-collapse"].level not in _BAD,
        "Most groups without a signal fail in all of their rollouts: these tasks are out of reach, or the reward has no first step.",
        ("data", "reward", "episode"),
    ),
    Rule(
        "collapsed-by-rate",
        ("entropy-collapse", "learning-rate-too-high"),
        _all("entropy-collapse", "learning-rate-too-high"),
        "The policy lost its entropy within a few steps and explores no more: the learning rate is too high for this reward.",
        ("hyperparameter", "checkpoint"),
        Level.CRITICAL,
    ),
    Rule(
        "collapsed-by-signal",
        ("entropy-collapse", "learning-rate-too-high"),
        _only(("entropy-collapse",), ("learning-rate-too-high",)),
        "The policy lost its entropy gradually. What it can still reach is what it does now.",
        ("hyperparameter", "checkpoint", "reward"),
    ),
    Rule(
        "peaked-and-fell",
        ("reward-collapse",),
        _any("reward-collapse"),
        "The run was better before than it is now. An earlier checkpoint is worth more than the last one.",
        ("checkpoint", "hyperparameter"),
        Level.CRITICAL,
    ),
    Rule(
        "broken-policy",
        ("reward-collapse", "hopeless-groups"),
        _all("reward-collapse", "hopeless-groups"),
        "What it could do at first it can no more, and now everything fails: updates broke the policy.",
        ("checkpoint", "hyperparameter"),
        Level.CRITICAL,
    ),
    Rule(
        "length-for-nothing",
        ("length-drift", "truncation"),
        _all("length-drift", "truncation"),
        "Replies grow until they are cut off: length is learned instead of the task, and the cut costs reward.",
        ("reward", "episode"),
    ),
    Rule(
        "echo-trap",
        ("repetition", "reward-spread"),
        _all("repetition", "reward-spread"),
        "Replies repeat themselves while rewards within a group become equal: the echo trap (RAGEN, arXiv 2504.20073).",
        ("filter", "hyperparameter"),
        Level.CRITICAL,
    ),
    Rule(
        "template",
        ("template-collapse", "solution-diversity"),
        lambda f: (
            f["template-collapse"].level is Level.CRITICAL
            or (f["template-collapse"].level is Level.WARN and f["solution-diversity"].level in _BAD)
        ),
        "Replies to different prompts became alike: the policy answers the format and no longer the question (RAGEN-2, arXiv 2604.06268).",
        ("reward", "data", "hyperparameter"),
    ),
    Rule(
        "copy-trap",
        ("copies-of-parent",),
        _any("copies-of-parent"),
        "Handing the parent back became the safe answer: the reward charges more for a failed try than a success is worth.",
        ("reward",),
    ),
    Rule(
        "filtered-illusion",
        ("filter-illusion", "learning"),
        lambda f: f["filter-illusion"].level in _BAD and f["learning"].level is not Level.OK,
        "The mean over kept groups tells another story than that over all: what looks like progress is the filter's choice.",
        ("filter", "data"),
    ),
    Rule(
        "starved",
        ("filter-keep", "dead-groups"),
        _any("filter-keep"),
        "Most of what is sampled is thrown away: the compute goes into rollouts that train nothing.",
        ("data", "filter", "hyperparameter"),
    ),
    Rule(
        "lost-unevenly",
        ("infrastructure", "unmeasured-bias"),
        _all("infrastructure", "unmeasured-bias"),
        "Measurements are lost, and not at random: the means are of those that survived. Mend the machine before anything is concluded.",
        (),
        Level.CRITICAL,
    ),
    Rule(
        "noise-is-paid",
        ("reward-noise",),
        _any("reward-noise"),
        "The same program earns now more, now less: part of the signal is the measurement's jitter, and it will be learned.",
        ("reward", "filter"),
    ),
    Rule(
        "no-signal-no-learning",
        ("learning", "dead-groups"),
        _all("learning", "dead-groups"),
        "Nothing is learned because nothing could be: the groups give no signal.",
        ("reward", "data", "filter"),
    ),
    Rule(
        "no-learning-with-signal",
        ("learning", "dead-groups", "reward-truth-gap", "entropy-collapse"),
        lambda f: (
            f["learning"].level in _BAD
            and f["dead-groups"].level is Level.OK
            and not any(f[id].level in _BAD for id in ("reward-truth-gap", "entropy-collapse"))
        ),
        "There is a signal and no gain: the step is too small, too few, or what is rewarded cannot be changed by this policy.",
        ("hyperparameter", "reward"),
    ),
    Rule(
        "overfit",
        ("train-eval-gap",),
        _any("train-eval-gap"),
        "It gets better on the tasks that it trains on and not on those it does not.",
        ("data", "hyperparameter", "checkpoint"),
    ),
)
"""The shipped rules."""
