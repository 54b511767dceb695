"""From settings to the simulator's parts: click models by name, experiments by family."""

from __future__ import annotations

import numpy as np

from ulr.config.settings import Segment, Simulate
from ulr.simulate import browsing
from ulr.simulate.clicks import ClickModel, trust_curve
from ulr.simulate.traffic import Experiment


def experiment_of(settings: Simulate) -> Experiment:
    """Expand families of buckets; a family's share is spread evenly over its buckets."""
    last = settings.positions
    families = {
        "single": [f"1:{k}" for k in range(2, last + 1)],
        "adjacent": [f"{k}:{k + 1}" for k in range(1, last)],
        "pair": [
            f"1,2:{k},{v}" for k in range(1, last) for v in range(k + 1, last + 1) if v > 2
        ],
    }  # fmt: skip
    names: list[str] = []
    shares: list[float] = []
    for swap in settings.swaps:
        buckets = families[swap.kind] if swap.kind else [str(swap.bucket)]
        names += buckets
        shares += [swap.fraction / len(buckets)] * len(buckets)
    return Experiment(tuple(names), tuple(shares))


def click_models(settings: Simulate) -> list[ClickModel]:
    """One model per segment, or one for all."""
    everyone = Segment(name="", fraction=1.0, eta=settings.examination.eta)
    return [_click_model(settings, s.eta) for s in settings.segments or [everyone]]


def _click_model(settings: Simulate, eta: float) -> ClickModel:
    how, last = settings.examination, settings.positions
    theta = browsing.CURVES[how.curve](last, eta)
    models = {
        "independent": lambda: browsing.Independent(theta),
        "continuous": lambda: browsing.Continuous(theta),
        "row_skipping": lambda: browsing.RowSkipping(
            how.gamma, np.full(last, how.continue_probability), how.width
        ),
        "cascade": lambda: browsing.Cascade(how.phi, how.beta),
        "single_choice": lambda: browsing.SingleChoice(theta),
    }
    positive = np.full(last, settings.clicks.positive)
    negative = trust_curve(last, settings.clicks.negative, settings.clicks.trust)
    return ClickModel(models[how.model](), positive, np.minimum(negative, positive))
