"""Kernels in C for a CPU, compiled when the package is installed; without a compiler torch does everything.

They change no result but for rounding. Weights are read as they lie (`panels`), and the layers of an encoder or of a
decoder's step are one call (`stack`), where torch makes a hundred.
"""

from anyorder.native.library import kernels, using
from anyorder.native.panels import Best, InPanels, InSteps
from anyorder.native.stack import Stack, remember

__all__ = ["Best", "InPanels", "InSteps", "Stack", "kernels", "remember", "using"]
