"""Build click models and experiments from the settings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from ulr.config.simulation import Segment, Simulate
from ulr.experiments.buckets import SHUFFLE
from ulr.simulate import browsing
from ulr.simulate.clicks import ClickModel, trust_curve
from ulr.simulate.traffic import Experiment


def experiment_of(settings: Simulate) -> Experiment:
    """Expand families of buckets; the buckets of a family share its traffic evenly."""
    last = settings.positions
    families = {
        "single": [f"1:{k}" for k in range(2, last + 1)],
        "adjacent": [f"{k}:{k + 1}" for k in range(1, last)],
        "pair": [f"1,2:{k},{v}" for k, v in combinations(range(1, last + 1), 2) if v > 2],
        "shuffle": [SHUFFLE],
    }
    names: list[str] = []
    shares: list[float] = []
    for swap in settings.swaps:
        buckets = families[swap.kind] if swap.kind else [str(swap.bucket)]
        names += buckets
        shares += [swap.fraction / len(buckets)] * len(buckets)
    return Experiment(tuple(names), tuple(shares))


def click_models(settings: Simulate) -> list[ClickModel]:
    """Return one model per segment, or one for all traffic."""
    everyone = Segment(name="", fraction=1.0, eta=settings.examination.eta)
    return [_click_model(settings, s.eta) for s in settings.segments or [everyone]]


def _click_model(settings: Simulate, eta: float) -> ClickModel:
    examination, last = settings.examination, settings.positions
    theta = browsing.CURVES[examination.curve](last, eta)
    phi = None if examination.phi == "relevance" else examination.phi
    models: dict[str, Callable[[], browsing.Browsing]] = {
        "independent": lambda: browsing.Independent(theta),
        "continuous": lambda: browsing.Continuous(theta),
        "row_skipping": lambda: browsing.RowSkipping(
            examination.gamma, np.full(last, examination.continue_probability), examination.width
        ),
        "cascade": lambda: browsing.Cascade(phi, examination.beta),
        "single_choice": lambda: browsing.SingleChoice(theta),
    }
    positive = np.full(last, settings.clicks.positive)
    negative = trust_curve(last, settings.clicks.negative, settings.clicks.trust)
    return ClickModel(models[examination.model](), positive, np.minimum(negative, positive))
