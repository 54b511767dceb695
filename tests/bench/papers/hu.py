"""Hu et al. 2019 (Unbiased LambdaMART): table 2 and figures 1 to 5."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.bench.papers.cells import POSITIONS, Results, run_cells
from tests.bench.papers.claims import Claim, difference
from tests.bench.papers.figures import Series, metric_figure, sweep
from tests.bench.papers.methods import (
    DLA,
    IDEAL,
    JOINT,
    LABELS,
    NAIVE,
    PRODUCTION,
    Method,
    unbiased_lambdamart,
)
from tests.bench.papers.page import HEIGHT, KINDS, Figure, Paper, Table
from tests.bench.papers.published import HU_TABLE_2
from tests.bench.papers.worlds import Scale, World
from ulr.report.charts.lines import Line, LinesChart

PBM = World("independent", "eye_tracking", epsilon=0.1, sessions=8)  # 165,660 on 19,944 queries
CASCADE = replace(PBM, browsing="cascade")
STRONG = [replace(world, strong=True) for world in (PBM, CASCADE)]
NORMS = (0.0, 0.5, 1.0, 2.0, 3.0)
ETAS, BETAS, FRACTIONS = (0.0, 0.5, 1.0, 1.5, 2.0), (1.0, 0.8, 0.6, 0.5, 0.4), (0.2, 0.4, 0.6, 0.8)
DEBIASED = {p: unbiased_lambdamart(p) for p in NORMS}
EM = Method("Regression-EM", "robust", propensities="regression_em")
RANDOM = Method("Randomisation", "robust", propensities="shuffle")
METHODS = [DEBIASED[0], EM, RANDOM, NAIVE]
SVM = {
    "labels": Method("RankSVM, labels", "labels", "svm"),
    "regression-EM": Method("RankSVM, regression-EM", "ips-all", "svm", "regression_em"),
    "randomisation": Method("RankSVM, randomisation", "ips-all", "svm", "shuffle"),
    "clicks": Method("RankSVM, clicks", "naive", "svm"),
}
TABLE_2 = {
    "LambdaMART": {
        "labels": LABELS, "pairwise debiasing": DEBIASED[0], "regression-EM": EM,
        "randomisation": RANDOM, "clicks": NAIVE, "joint of ulr": JOINT,
    },
    "DNN": {"DLA": DLA},
    "RankSVM": SVM,
}  # fmt: skip


def run(scale: Scale, processes: int) -> Paper:
    """Run the table and all figures in one pool."""
    by_eta = [replace(PBM, eta=eta) for eta in ETAS]
    by_beta = [replace(CASCADE, beta=beta) for beta in BETAS]
    by_size = [*(replace(PBM, fraction=fraction) for fraction in FRACTIONS), PBM]
    plan: dict[World, list[Method]] = {
        PBM: [m for rows in TABLE_2.values() for m in rows.values()]
        + [IDEAL, PRODUCTION, *DEBIASED.values()],
        CASCADE: [*METHODS, LABELS, PRODUCTION, *DEBIASED.values()],
    }
    plan |= {world: [*METHODS, DEBIASED[1], LABELS, PRODUCTION] for world in STRONG}
    for world in (*by_eta, *by_beta, *by_size):
        plan.setdefault(world, []).extend(METHODS)
    unique = {world: list(dict.fromkeys(methods)) for world, methods in plan.items()}
    results = run_cells(scale, unique.items(), processes=processes)
    parts = [_table_2(results), _rankers(results), _figure_1(results), _figure_2(results)]
    parts += [
        _figure_3(results, name, world, metric)
        for name, world in (("position-based", PBM), ("cascade", CASCADE))
        for metric in ("NDCG@1", "MAP")
    ]
    title = "Figure 4: degree of position bias"
    parts.append(_sweep(results, f"{title}, position-based clicks", "eta", ETAS, by_eta))
    parts.append(_sweep(results, f"{title}, cascade clicks", "beta", BETAS, by_beta))
    title = "Figure 5: size of the training data"
    parts.append(_sweep(results, title, "fraction of the queries", (*FRACTIONS, 1.0), by_size))
    return Paper("hu", "Hu 2019, table 2 and figures 1 to 5", SETTING, parts, _claims(results))


SETTING = (
    "Hu, Wang, Peng, Li 2019. Eye-tracking curve, relevance noise 0.1, 10 documents a page, 8 "
    "sessions a query (165,660 sessions in the paper). The cascade satisfies with half of the "
    "document's relevance, beta = 0.5. Randomisation estimates theta from as many shuffled pages "
    "as the log has, regression-EM from the log; both are IPS weights (`robust`). The neural "
    "ranker is out of scope; DLA is on trees."
)


def _table_2(results: Results) -> Table:
    metrics = ("MAP", "NDCG@1", "NDCG@3", "NDCG@5", "NDCG@10")
    rows = []
    for ranker in ("LambdaMART", "DNN", "RankSVM"):
        for name in dict.fromkeys([*HU_TABLE_2[ranker], *TABLE_2[ranker]]):
            method, published = TABLE_2[ranker].get(name), HU_TABLE_2[ranker].get(name)
            own = ["–"] * len(metrics)
            if method is not None and results.has(PBM, method):
                own = [f"{results.mean(PBM, method, metric):.3f}" for metric in metrics]
            theirs = [f"{value:.3f}" for value in published] if published else ["–"] * len(metrics)
            cells = [f"{o} ({t})" for o, t in zip(own, theirs, strict=True)]
            rows.append([ranker, name, *cells])
    note = "Ours, then the published value; –: not run, or not published."
    return Table("Table 2", ["ranker", "debiasing", *metrics], rows, note)


def _rankers(results: Results) -> Table:
    rows = []
    for method in (PRODUCTION, NAIVE, EM, RANDOM, DEBIASED[0], DEBIASED[1], LABELS):
        cells = [results.mean(world, method, "NDCG@1") if results.has(world, method) else None
                 for world in (PBM, STRONG[0], CASCADE, STRONG[1])]  # fmt: skip
        rows.append([method.name, *("–" if cell is None else f"{cell:.3f}" for cell in cells)])
    columns = ["method", "position-based", "position-based, strong", "cascade", "cascade, strong"]
    return Table("NDCG@1 with a linear and with a strong production ranker", columns, rows,
                 "Strong: golden labels with noise of 1.5 standard deviations.")  # fmt: skip


def _figure_1(results: Results) -> Figure:
    x = list(range(1, POSITIONS + 1))
    lines = [
        Line(method.name, x, np.mean([o.moved for o in results.outcomes[PBM, method.name]],
                                     axis=0).tolist(), KINDS[number])
        for number, method in enumerate([*METHODS, IDEAL])
    ]  # fmt: skip
    title = "Figure 1: average position after re-ranking, by original position"
    return Figure("hu-figure-1.svg", LinesChart(title, lines, "original position", "new position",
                                                height=HEIGHT))  # fmt: skip


def _figure_2(results: Results) -> Figure:
    learned = [o.biases for o in results.outcomes[PBM, DEBIASED[0].name] if o.biases is not None]
    x = list(range(1, POSITIONS + 1))
    lines = [
        Line(name, x, np.mean([pair[i] for pair in learned], axis=0)[:POSITIONS].tolist(), KINDS[i])
        for i, name in enumerate(("t+", "t-"))
    ]
    lines.append(Line("theta", x, (PBM.theta() / PBM.theta()[0]).tolist(), "faint"))
    title = "Figure 2: learned position biases at clicks (t+) and at unclicked documents (t-)"
    return Figure("hu-figure-2.svg", LinesChart(title, lines, "position", "bias relative to "
                                                "position 1", height=HEIGHT))  # fmt: skip


def _figure_3(results: Results, name: str, world: World, metric: str) -> Figure:
    series: list[Series] = [("Unbiased LambdaMART", [(world, DEBIASED[p]) for p in NORMS])]
    series += [(m.name, [(world, m)] * len(NORMS)) for m in (EM, RANDOM, NAIVE)]
    return metric_figure(
        results, series, [f"{p:g}" for p in NORMS], metric=metric, x_name="p",
        file=f"hu-figure-3-{name.partition('-')[0]}-{metric[:4].lower()}.svg",
        title=f"Figure 3: regularisation, {name} clicks",
    )  # fmt: skip


def _sweep(
    results: Results, title: str, axis: str, values: tuple[float, ...], worlds: list[World]
) -> Figure:
    number = title.partition(":")[0].rpartition(" ")[2]
    return metric_figure(
        results, sweep(METHODS, worlds), [f"{v:g}" for v in values], metric="NDCG@1", x_name=axis,
        file=f"hu-figure-{number}-{axis.partition(' ')[0]}.svg", title=title,
    )  # fmt: skip


def _claims(results: Results) -> list[Claim]:
    ours = DEBIASED[0]
    severe = [replace(PBM, eta=2.0), replace(CASCADE, beta=0.4)]
    cells = [
        ("table 2: pairwise debiasing above regression-EM", PBM, ours, EM),
        ("table 2: pairwise debiasing above randomisation", PBM, ours, RANDOM),
        ("table 2: pairwise debiasing above clicks", PBM, ours, NAIVE),
        ("table 2: labels above pairwise debiasing", PBM, LABELS, ours),
        ("table 2: regression-EM above clicks", PBM, EM, NAIVE),
        ("table 2: randomisation above clicks", PBM, RANDOM, NAIVE),
        ("table 2, LambdaMART above RankSVM, randomisation", PBM, RANDOM, SVM["randomisation"]),
        ("figure 3: p = 0 above clicks, cascade", CASCADE, ours, NAIVE),
        ("figure 3: p = 1 above p = 0, cascade", CASCADE, DEBIASED[1], ours),
        ("figure 4, eta = 2: pairwise debiasing above clicks", severe[0], ours, NAIVE),
        ("figure 4, eta = 2: pairwise debiasing above randomisation", severe[0], ours, RANDOM),
        ("figure 4, beta = 0.4: pairwise debiasing above clicks", severe[1], ours, NAIVE),
        ("figure 5, 20% of the queries: pairwise debiasing above randomisation",
         replace(PBM, fraction=0.2), ours, RANDOM),
    ]  # fmt: skip
    strong = dict(zip((PBM, CASCADE), STRONG, strict=True))
    cells += [
        (f"{text}, strong production ranker", strong[world], a, b)
        for text, world, a, b in cells
        if world in strong
    ]
    return [
        Claim(
            f"{text} (NDCG@1)",
            difference(results, world, a, b, "NDCG@1"),
            _why(text),
            extra=world.strong,
        )
        for text, world, a, b in cells
        if results.has(world, a) and results.has(world, b)
    ]


def _why(text: str) -> str:
    if "pairwise" not in text and "p = 0 above clicks" not in text:
        if "strong" in text:
            return (
                "Under the strong production ranker naive clicks are within 0.05 of the labels, so "
                "that a correction costs more in variance than it gains."
            )
        return (
            "p = 1 takes the root of t+ and t-, that is, half of the correction. Under the weak "
            "production ranker the full correction is needed; under the strong one p = 1 is above "
            "p = 0, as in the paper."
        )
    return (
        "With p = 0 the biases are estimated again from the losses of the current model at every "
        "tree, and overshoot on this corpus: t+ falls below theta, and t- rises above 1 where it "
        "falls in the paper (figure 2). How far depends on the production ranker. With the strong "
        "one p = 1 is above regression-EM and randomisation, and p = 0 is not. ulr freezes the "
        "biases after 20 trees with p = 0.5."
    )
