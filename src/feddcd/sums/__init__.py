"""Sums over sites that reveal nothing but themselves: exact numbers, masks, signatures, proofs.

A site encodes its answer (`layout`, `ring`, `levels`), masks it (`masks`) and signs it (`signing`);
whoever adds up the answers of a whole cohort reads the sum, and `proof` shows it to anybody.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import chain as chain
    from . import job as job
    from . import keys as keys
    from . import layout as layout
    from . import levels as levels
    from . import masks as masks
    from . import proof as proof
    from . import ring as ring
    from . import roster as roster
    from . import signing as signing
    from . import token as token
