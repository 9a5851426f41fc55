"""The equation p(G|X) as code: torch only, no strings, no files.

p(G|X) = p(L|X) · ∏_t ∏_i p(z_i^{t+1} | Y^{≤t}, Z^t, X) · p(y_i^{t+1} | Y^{≤t}, X)^{z_i^{t+1}}
         length           coordinates                      symbols
"""

from anyorder.core.automaton import Automaton
from anyorder.core.beam import Beam, Searching, beam
from anyorder.core.coordinates import (
    Coordinates,
    Region,
    aligned,
    block,
    dilated,
    everywhere,
    last_slot,
    masked,
    revisit,
)
from anyorder.core.cost import Cost
from anyorder.core.count import (
    Count,
    anneal,
    chance,
    constant,
    diffusion,
    entropy_bound,
    even,
    factor,
    fixed,
    kl_stable,
    shares,
    threshold,
    whole,
)
from anyorder.core.decode import Result, Running, decode, unroll
from anyorder.core.decoder import Decoder, Times, done
from anyorder.core.edit import Edit, Insert, Replace
from anyorder.core.gibbs import Samples, chains, sampler
from anyorder.core.length import Counts, Given, Length, Predicted, UntilEos
from anyorder.core.look import Reader
from anyorder.core.model import Context, Model, NoContext
from anyorder.core.order import (
    FEATURES,
    Feature,
    Order,
    confidence,
    leftmost,
    logp,
    margin,
    negent,
    position,
    random,
    rightmost,
    stale,
)
from anyorder.core.parse import OrderError, parse
from anyorder.core.remask import Accept, Metropolis, PathPlanning, ReMDM, TakeBack
from anyorder.core.score import any_order_bound, best, log_likelihood, marginal, pll, token_scores
from anyorder.core.state import State, View, begin, canvas
from anyorder.core.step import Step, step
from anyorder.core.symbols import Symbols
from anyorder.errors import ModelError

__all__ = [
    "FEATURES", "Accept", "Automaton", "Beam", "Context", "Coordinates", "Cost", "Count", "Counts", "Decoder", "Edit",
    "Feature", "Given", "Insert", "Length", "Metropolis", "Model", "ModelError", "NoContext", "Order", "OrderError",
    "PathPlanning", "Predicted", "ReMDM", "Reader", "Region", "Replace", "Result", "Running", "Samples", "Searching",
    "State", "Step", "Symbols", "TakeBack", "Times", "UntilEos", "View", "aligned", "anneal",
    "any_order_bound", "beam", "begin", "best",
    "block", "canvas", "chains", "chance", "confidence", "constant", "decode", "diffusion", "dilated", "done",
    "entropy_bound", "even", "everywhere", "factor", "fixed", "kl_stable", "last_slot", "leftmost", "log_likelihood",
    "logp", "margin",
    "marginal", "masked", "negent", "parse", "pll", "position", "random", "revisit", "rightmost", "sampler", "shares",
    "stale", "step", "threshold", "token_scores", "unroll", "whole",
]  # fmt: skip
