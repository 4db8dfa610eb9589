"""The numbers that can change a verdict, each with the reason for its value.

The level from which data count as noisy is where the form of the rows is decided, in
:mod:`sjepa.data.forms`.
"""

from __future__ import annotations

import math


# Tails of the noise. Four degrees of freedom have the outliers of ordinary instruments (1 % at ten
# standard deviations) and lose 4 % of the information where the noise is normal.
DEGREES_OF_FREEDOM = 4.0
# A trajectory's noise level counts as if it had been seen this many times in the others: a
# trajectory of thirty samples has a scale of its own, one of three has not.
PRIOR_VALUES = 10.0
# Nats for one unit of complexity: a unit chooses among about a dozen terms, the number of weight
# one in the default library of three states. Where it chooses among more, as in tables of many
# columns, it costs the logarithm of their number.
STRUCTURE = 2.5
# Odds beyond which a law is no rival: 20 to 1, the customary meaning of strong evidence.
ODDS = math.log(20)
# Size of the tests of adequacy: one right law in a hundred is called inadequate.
SIGNIFICANCE = 0.01
# Relative accuracy below which a law is adequate whatever is left: solvers with their usual
# tolerances reproduce derivatives to a few parts in 10,000 (1e-7 of the variance).
EXACT = 1e-7
# A test needs at least this many independent blocks in each half, or trajectories; fewer cannot
# reach its size.
MIN_BLOCKS = 4
# A correction of a law is a sum of this many Gaussian functions for each state beyond the first,
# as wide as this share of the state's standard deviation: fine enough for a cubic or half a wave
# within the range, coarse enough to be learned from forty segments.
FUNCTIONS, WIDTH = 40, 0.5
# Simulations last this many times spread over root mean square velocity: 2 pi would be a period.
# Longer ones tell coefficients better and are harder to fit; under chaos a start is lost in ten.
LENGTH = 4.0
# Clean derivatives are compared down to this multiple of their estimated mean square error: the
# estimate, from differences of three orders, is good to a factor of ten in size.
DERIVATIVES = 100.0
