"""Tables and encodings → Figure, one function per figure of the papers; `polarised.report.save` writes them."""

from polarised.report.figures import decomposition as _decomposition
from polarised.report.figures import factors as _factors
from polarised.report.figures import over_strength as _over_strength
from polarised.report.figures import over_training as _over_training
from polarised.report.figures import variables as _variables
from polarised.report.figures.decomposition import *
from polarised.report.figures.factors import *
from polarised.report.figures.over_strength import *
from polarised.report.figures.over_training import *
from polarised.report.figures.variables import *

__all__: list[str] = []
__all__ += _decomposition.__all__
__all__ += _factors.__all__
__all__ += _over_strength.__all__
__all__ += _over_training.__all__
__all__ += _variables.__all__
