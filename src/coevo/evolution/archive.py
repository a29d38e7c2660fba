"""The programs a search keeps as parents: islands of ranked members, with MAP-Elites cells, under an exact cap.

A member is a light record; its source stays in the store. The archive is a fold: `apply` takes committed candidates in
step order and nothing else changes it. Cost of one `apply` is logarithmic in the members held (plus a short memory
move), and at most `LINEAGE` for the statistics of ancestors.

Rules, each with a property test:
* An elite is evicted only by a better program of its cell. An island has at most as many cells as room.
* The best program so far is never lost, and its fitness never falls. Ties go to the earlier step.
* Programs that failed are remembered for repair and as earlier attempts, but are never members.
* An island's ancestry is a tree of its own: foreign programs enter by migration only.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from coevo.evolution.features import distance
from coevo.evolution.records import Candidate, Traits, unpacked
from coevo.evolution.settings import SearchConfig
from coevo.evolution.types import Edit

LINEAGE = 32
"""How many living ancestors a child's result is backed up to."""

RECENT_FAILURES = 8
"""Failed programs an island remembers for repair."""

RECENT_CHILDREN = 4
"""Attempts remembered per parent: the earlier attempts a prompt shows."""


@dataclass(frozen=True, slots=True)
class Member:
    """One kept program."""

    id: str
    step: int
    fitness: float
    island: int
    parent: str
    edit: Edit
    structure: str
    skeleton: str
    constants: int
    sketch: bytes
    """These four as in `Traits`."""
    cell: tuple[int, ...] = ()
    score: float | None = None
    migrant: bool = False

    @property
    def rank_key(self) -> tuple[float, int, str]:
        """Sorts the better, then the earlier, first."""
        return (-self.fitness, self.step, self.id)


class Island:
    """Up to `capacity` members, ranked; the best of each cell is its elite."""

    def __init__(self, index: int, capacity: int, per_structure: int) -> None:
        self.index, self.capacity, self.per_structure = index, capacity, per_structure
        self.members: dict[str, Member] = {}
        self.ranked: list[tuple[float, int, str]] = []
        """Keys of all members, best first."""
        self.elites: dict[tuple[int, ...], Member] = {}
        self.cells: list[tuple[int, ...]] = []
        """Occupied cells in order of discovery, for uniform draws."""
        self.visits: dict[str, int] = {}
        self.backed_up: dict[str, float] = {}
        """Best fitness among a member's descendants that were measured."""
        self.failures: deque[str] = deque(maxlen=RECENT_FAILURES)
        self._ordinary: list[tuple[float, int, str]] = []
        self._structures: dict[str, list[tuple[float, int, str]]] = {}

    def __len__(self) -> int:
        return len(self.members)

    @property
    def best(self) -> Member | None:
        return self.members[self.ranked[0][2]] if self.ranked else None

    def at(self, rank: int) -> Member:
        """The member at a rank, 0 the best."""
        return self.members[self.ranked[rank][2]]

    def add(self, member: Member) -> bool:
        """Admit a member, evicting whom the rules say; False when that is the newcomer, or it is known here."""
        if member.id in self.members:
            return False
        self._insert(member)
        twins = self._structures[member.structure]
        if len(twins) > self.per_structure:
            self._evict_last(twins)
        if len(self.members) > self.capacity:
            self._evict_last(self._ordinary)
        return member.id in self.members

    def back_up(self, parent: str, fitness: float | None) -> None:
        """Count a measured child (None: it failed) for its parent and the parent's living ancestors."""
        for _ in range(LINEAGE):
            member = self.members.get(parent)
            if member is None:
                return
            self.visits[parent] = self.visits.get(parent, 0) + 1
            if fitness is not None and fitness > self.backed_up.get(parent, -math.inf):
                self.backed_up[parent] = fitness
            parent = member.parent

    def _insert(self, member: Member) -> None:
        key = member.rank_key
        self.members[member.id] = member
        insort(self.ranked, key)
        insort(self._structures.setdefault(member.structure, []), key)
        elite = self.elites.get(member.cell)
        if elite is None:
            self.cells.append(member.cell)
            self.elites[member.cell] = member
        elif key < elite.rank_key:
            self.elites[member.cell] = member
            insort(self._ordinary, elite.rank_key)
        else:
            insort(self._ordinary, key)

    def _evict_last(self, keys: list[tuple[float, int, str]]) -> None:
        """Drop the worst of `keys` that is no elite. The lists are short, or hold no elites."""
        for key in reversed(keys):
            if self.drop(self.members[key[2]]):
                return

    def drop(self, member: Member) -> bool:
        """Remove a member that is no elite; False when it is one, or is not here."""
        if self.members.get(member.id) is not member or self.elites[member.cell] is member:
            return False
        key = member.rank_key
        _discard(self.ranked, key)
        _discard(self._ordinary, key)
        twins = self._structures[member.structure]
        _discard(twins, key)
        if not twins:
            del self._structures[member.structure]
        del self.members[member.id]
        self.visits.pop(member.id, None)
        self.backed_up.pop(member.id, None)
        return True


class Archive:
    """Islands, the best program so far, and what was tried from each living parent."""

    def __init__(self, config: SearchConfig, *, islands: int) -> None:
        self._config = config
        share, extra = divmod(max(config.population, islands), islands)
        self.islands = [Island(i, share + (i < extra), config.per_structure) for i in range(islands)]
        self.bins = max(1, min(config.bins, math.isqrt(share)))
        self.start: Candidate | None = None
        self.best: Member | None = None
        self.latest: str = ""
        """Id of the last program that was measured (scored or failed); the start until then."""
        self.attempts: dict[str, tuple[str, ...]] = {}
        """Per living parent: its last measured children, failures included."""
        self.migrations = 0

    def __len__(self) -> int:
        return sum(len(island) for island in self.islands)

    def members(self) -> Iterator[Member]:
        for island in self.islands:
            yield from island.members.values()

    def apply(self, candidate: Candidate) -> None:
        """Fold in one measured candidate (scored or failed; duplicates and unmeasured ones are none)."""
        program, summary, traits = candidate.program, candidate.evaluation, candidate.traits
        if program is None or summary is None or traits is None or summary.fitness is None:
            return
        if candidate.decision.edit is Edit.START:
            self.start = candidate
        self.latest = program
        island = self.islands[candidate.decision.island]
        parent = candidate.decision.parent
        if parent:
            self.attempts[parent] = (*self.attempts.get(parent, ()), program)[-RECENT_CHILDREN:]
            island.back_up(parent, summary.fitness if candidate.scored else None)
        if not candidate.scored:
            if candidate.decision.edit is not Edit.START:
                island.failures.append(program)
            return
        member = Member(
            id=program,
            step=candidate.step,
            fitness=summary.fitness,
            island=island.index,
            parent=parent,
            edit=candidate.decision.edit,
            structure=traits.structure,
            skeleton=traits.skeleton,
            constants=traits.constants,
            sketch=traits.sketch,
            cell=self._cell(traits),
            score=summary.score,
        )
        if member.edit is Edit.START:
            for home in self.islands:
                home.add(replace(member, island=home.index))
        else:
            self._admit(island, member)
        if self.best is None or member.rank_key < self.best.rank_key:
            self.best = member
        self._forget()

    def migrate(self) -> None:
        """Each island sends its best to the next one on the ring, all from the state before."""
        self.migrations += 1
        count = self._config.migrants
        sent = [[island.at(r) for r in range(min(count, len(island)))] for island in self.islands]
        for origin, members in enumerate(sent):
            target = self.islands[(origin + 1) % len(self.islands)]
            for member in members if target.index != origin else ():
                target.add(replace(member, island=target.index, migrant=True))

    def _admit(self, island: Island, member: Member) -> None:
        """Add a member, unless a program that it hardly differs from is better; then drop those that it betters."""
        near = self._near(island, member) if self._config.novelty else []
        if any(other.rank_key < member.rank_key for other in near):
            return
        if island.add(member):
            for other in near:
                island.drop(other)

    def _near(self, island: Island, member: Member) -> list[Member]:
        """Its parent and its cell's elite, where they differ from it by less than `novelty`."""
        around = {m.id: m for m in (island.members.get(member.parent), island.elites.get(member.cell)) if m is not None}
        sketch = unpacked(member.sketch)
        return [m for m in around.values() if distance(unpacked(m.sketch), sketch) < self._config.novelty]

    def _cell(self, traits: Traits) -> tuple[int, ...]:
        """Bins on a logarithmic scale, two a doubling, centred on the start program."""
        if self.bins == 1 or self.start is None or self.start.traits is None:
            return ()
        cell: list[int] = []
        for value, origin in zip(traits.descriptors, self.start.traits.descriptors, strict=True):
            offset = round(2 * math.log2((1.0 + max(0.0, value)) / (1.0 + max(0.0, origin))))
            cell.append(min(self.bins - 1, max(0, offset + self.bins // 2)))
        return tuple(cell)

    def _forget(self) -> None:
        """Attempts of parents that are gone are dropped now and then, so that the table stays as small as the archive."""
        if len(self.attempts) > 64 + 4 * len(self):
            alive = {member.id for member in self.members()}
            if self.start is not None and self.start.program is not None:
                alive.add(self.start.program)
            self.attempts = {parent: tried for parent, tried in self.attempts.items() if parent in alive}


def _discard(keys: list[tuple[float, int, str]], key: tuple[float, int, str]) -> None:
    """Remove a key from a sorted list, if it is there."""
    at = bisect_left(keys, key)
    if at < len(keys) and keys[at] == key:
        del keys[at]
