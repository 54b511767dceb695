from __future__ import annotations

import numpy as np
import pytest

from ulr.features.letor import read_letor
from ulr.simulate.randomness import scrambled_ids, stream
from ulr.simulate.traffic import Catalogue, query_shares, rank_catalogue
from ulr.simulate.world import Judged, Synthetic, weak_ranker

WORLD = Synthetic(seed=3, queries=2500, docs_per_query=12, features=10)


def dcg_at_3(labels: np.ndarray) -> np.ndarray:
    return ((2.0 ** labels[:, :3] - 1) / np.log2(np.arange(2, 5))).sum(axis=1)


def test_a_block_depends_only_on_the_seed_and_its_number():
    again = Synthetic(seed=3, queries=2500, docs_per_query=12, features=10)
    assert np.array_equal(WORLD.block(2).features, again.block(2).features)
    assert not np.array_equal(WORLD.block(0).features[:5], WORLD.block(1).features[:5])


def test_the_document_names_of_all_blocks_equal_those_of_the_world():
    names = WORLD.names()
    of_blocks = [n for b in range(WORLD.blocks) for n in WORLD.block(b).names.documents.to_pylist()]
    assert names.documents.to_pylist() == of_blocks
    assert len(set(of_blocks)) == 2500 * 12


def test_the_production_ranker_is_better_than_chance_and_far_from_the_ideal():
    block = WORLD.block(0)
    labels = block.labels.reshape(-1, 12)
    scores = weak_ranker(block, 25).scores(block.features).reshape(-1, 12)
    shown = np.take_along_axis(labels, np.argsort(-scores, axis=1), axis=1)
    ideal = -np.sort(-labels, axis=1)
    chance, ranked, best = (dcg_at_3(x).mean() for x in (labels, shown, ideal))
    assert chance * 1.1 < ranked < best * 0.75


def test_higher_labels_are_rarer():
    counts = np.bincount(WORLD.block(1).labels, minlength=5)
    assert (np.diff(counts) < 0).all()
    assert counts[4] > 0


def test_session_ids_never_collide_and_do_not_depend_on_the_block():
    ids = scrambled_ids(0, 5000, 9)
    assert len({bytes(row) for row in ids}) == 5000
    assert np.array_equal(scrambled_ids(1000, 10, 9), ids[1000:1010])


def test_streams_differ_by_name_number_and_seed():
    draws = [stream(*key).random() for key in [(1, "a"), (1, "b"), (2, "a"), (1, "a", 0)]]
    assert len(set(draws)) == 4
    assert stream(1, "a").random() == draws[0]


def test_a_hot_query_gets_its_fraction_of_the_traffic():
    shares = query_shares(100, 1.0, 0.3)
    harmonic = sum(1 / i for i in range(1, 101))
    assert shares.sum() == pytest.approx(1)
    assert shares[0] == pytest.approx(0.3 + 0.7 / harmonic)


def test_pages_of_a_small_query_are_short(tmp_path):
    path = tmp_path / "fold.txt"
    path.write_text("2 qid:7 1:0.5\n0 qid:7 2:-2\n1 qid:9 1:1e-3\n")
    world = Judged(read_letor([str(path)]))
    block = world.block(0)
    catalogue = Catalogue(world.names(), block.labels, block.features[:, 0], world.max_label)
    rankings = rank_catalogue(catalogue, 3, drift=0.0, noise=0.1, seed=1, day=0)
    assert rankings.documents.tolist() == [[0, 1, -1], [2, -1, -1]]
    assert (rankings.relevance[rankings.documents < 0] == -1).all()
