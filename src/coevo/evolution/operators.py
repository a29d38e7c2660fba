"""The free operators: children without a model. Pure functions of programs, numbers and a random stream.

`tune` and `with_constants` move numeric constants (an optimiser decides where to), `mutate` makes one small change to
the syntax, `splice` puts a part of one program into another. Each ends in a `Proposal` that has passed the
same checks as a model's edit: it compiles, differs from its parent, and respects the EVOLVE-BLOCK.
"""

from coevo.evolution.constants import Constants, constants, tune, with_constants
from coevo.evolution.mutation import mutate
from coevo.evolution.splicing import splice

__all__ = ["Constants", "constants", "mutate", "splice", "tune", "with_constants"]
