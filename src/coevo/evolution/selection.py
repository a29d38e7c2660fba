"""Who becomes a parent, and which programs are shown beside it. Draws come from the stream passed in.

Each strategy costs O(1) or O(log n) in the members of an island, but `ucb_tree`, which looks at each member once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from coevo.errors import pick
from coevo.evolution.archive import Island, Member
from coevo.evolution.features import distance
from coevo.evolution.records import unpacked
from coevo.evolution.settings import SelectionConfig

DIVERSE_SAMPLE = 4
"""Members looked at to find one that differs most."""

Selector = Callable[[Island, random.Random, SelectionConfig], Member]


def select(island: Island, rng: random.Random, config: SelectionConfig) -> Member:
    """A parent from an island that has members."""
    if not island.ranked:
        raise ValueError(f"island {island.index} has no members to select from")
    return pick(config.name, SELECTIONS, kind="selection")(island, rng, config)


def mix(island: Island, rng: random.Random, config: SelectionConfig) -> Member:
    """The best with chance `elite`, the elite of a uniformly drawn cell with chance `explore`, else by power law."""
    u = rng.random()
    if u < config.elite:
        return island.at(0)
    if u < config.elite + config.explore:
        return island.elites[rng.choice(island.cells)]
    return power_law(island, rng, config)


def power_law(island: Island, rng: random.Random, config: SelectionConfig) -> Member:
    """Rank r from 1 with density r ** -power: inverse transform of the continuous law on [1, n + 1), rounded down."""
    n, u, a = len(island), rng.random(), config.power
    if abs(a - 1.0) < 1e-9:
        x = math.exp(u * math.log(n + 1))
    else:
        x = (1.0 + u * ((n + 1) ** (1.0 - a) - 1.0)) ** (1.0 / (1.0 - a))
    return island.at(min(n - 1, max(0, int(x) - 1)))


def tournament(island: Island, rng: random.Random, config: SelectionConfig) -> Member:
    """The best of `tournament` uniform draws with replacement."""
    return island.at(min(rng.randrange(len(island)) for _ in range(config.tournament)))


def ucb_tree(island: Island, rng: random.Random, config: SelectionConfig) -> Member:
    """PUCT over the lineage: value + c * spread * prior * sqrt(1 + total visits) / (1 + visits).

    value: the best fitness among a member's measured descendants, or its own when it has none better. prior: proportional
    to n - rank. spread: best minus worst fitness. The form is TTT-Discover's (its section on reusing states), with
    visits backed up to ancestors. Members with equal values are told apart by rank; nothing is drawn.
    """
    n = len(island)
    spread = island.ranked[-1][0] - island.ranked[0][0] or 1.0
    total = math.sqrt(1.0 + sum(island.visits.values()))
    weight = config.exploration * spread * total * 2.0 / (n * (n + 1))
    best_value, best_id = -math.inf, ""
    for rank, (negative, _, name) in enumerate(island.ranked):
        value = max(-negative, island.backed_up.get(name, -math.inf))
        value += weight * (n - rank) / (1 + island.visits.get(name, 0))
        if value > best_value:
            best_value, best_id = value, name
    return island.members[best_id]


SELECTIONS: dict[str, Selector] = {
    "mix": mix,
    "power_law": power_law,
    "ucb_tree": ucb_tree,
    "tournament": tournament,
}


def inspire(island: Island, parent: str, rng: random.Random, count: int) -> tuple[str, ...]:
    """Up to `count` other members: in turn the best not yet taken, and the one most different from those taken."""
    taken = [island.members[parent]] if parent in island.members else []
    shown: list[Member] = []
    top = iter(range(len(island)))
    while len(shown) < count:
        if len(shown) % 2 == 0:
            chosen = next((m for m in map(island.at, top) if m.id != parent and m not in shown), None)
        else:
            chosen = _most_different(island, rng, [*taken, *shown])
        if chosen is None:
            break
        shown.append(chosen)
    return tuple(member.id for member in shown)


def partner(island: Island, parent: str, rng: random.Random, config: SelectionConfig) -> str | None:
    """A second parent other than the first: three draws by the selection, else the best other member."""
    for _ in range(3):
        other = select(island, rng, config) if island.ranked and config.name != "ucb_tree" else None
        if other is not None and other.id != parent:
            return other.id
    others = (m.id for m in map(island.at, range(min(2, len(island)))) if m.id != parent)
    return next(others, None)


def _most_different(island: Island, rng: random.Random, known: Sequence[Member]) -> Member | None:
    ids = {member.id for member in known}
    drawn = [island.at(rng.randrange(len(island))) for _ in range(DIVERSE_SAMPLE)]
    fresh = {member.id: unpacked(member.sketch) for member in drawn if member.id not in ids}
    if not fresh:
        return None
    shown = [unpacked(member.sketch) for member in known]
    name = max(fresh, key=lambda name: min((distance(fresh[name], sketch) for sketch in shown), default=1.0))
    return island.members[name]
