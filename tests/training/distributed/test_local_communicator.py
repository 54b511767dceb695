"""Two ranks of one process: shared memory gives the models of sockets; no rank blocks for ever."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clicked_pairs import clicked_data
from tests.support.in_memory import _split_over_ranks, sampled_bins
from ulr.kernels import collectives as kernel
from ulr.training.checkpoint import TrainState
from ulr.training.distributed import lightgbm_network, local_communicator, local_ranks
from ulr.training.distributed.communicator import (
    Communicator,
    connected_pair,
    single_rank,
)
from ulr.training.distributed.lightgbm_network import ROOT_UNITS, open_network, units_per_row
from ulr.training.distributed.local_communicator import LocalCommunicator, local_pair
from ulr.training.distributed.peer import PeerLost
from ulr.training.plan import TrainPlan

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 60.0


def on_pair(work):
    """Run `work` on both ranks; return results or errors by rank."""

    def run(communicator):
        with communicator:
            return work(communicator)

    with local_pair() as pair, ThreadPoolExecutor(2) as pool:
        assert isinstance(pair[0], LocalCommunicator)
        futures = [pool.submit(run, communicator) for communicator in pair]
        return [future.exception(TIMEOUT_S) or future.result() for future in futures]


@settings(max_examples=25)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 3, 127, 128, 129, 5000]), min_size=1, max_size=60),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_both_ranks_for_any_sequence_of_sizes_and_delays(sizes, seed):
    rng = np.random.default_rng(seed)
    parts = [[rng.normal(size=n) for n in sizes] for _ in range(2)]
    delays = rng.random((2, len(sizes))) < 0.1

    def work(communicator):
        sums = []
        for part, delay in zip(parts[communicator.rank], delays[communicator.rank], strict=True):
            time.sleep(0.001 * delay)  # the other rank blocks on its pipe
            sums.append(communicator.sum(part))
        assert communicator.calls == len(sizes)
        assert communicator.bytes == 8 * sum(sizes)
        return sums

    for sums in on_pair(work):
        for total, first, second in zip(sums, *parts, strict=True):
            assert total.tobytes() == (first + second).tobytes()


def int32s(*values):
    return (ctypes.c_int32 * len(values))(*values)


@pytest.mark.parametrize("lengths", [(8, 8), (0, 40), (1016, 1024), (1016, 1032), (80_000, 8)])
@pytest.mark.parametrize("in_place", [False, True])
def test_allgather_returns_both_blocks_even_if_the_input_is_the_start_of_the_output(
    lengths, in_place
):
    rng = np.random.default_rng(0)
    blocks = [rng.bytes(n) for n in lengths]

    def work(communicator):
        rank, gather = communicator.rank, lightgbm_network._ALLGATHER(communicator.functions[1])
        for _ in range(20):
            output = np.zeros(sum(lengths), np.uint8)
            content = output if in_place else np.zeros(lengths[rank], np.uint8)
            content[: lengths[rank]] = np.frombuffer(blocks[rank], np.uint8)
            gather(content.ctypes.data, lengths[rank], int32s(0, lengths[0]), int32s(*lengths), 2,
                   output.ctypes.data, output.nbytes)  # fmt: skip
            assert output.tobytes() == blocks[0] + blocks[1]

    assert on_pair(work) == [None, None]


@pytest.mark.parametrize("lengths", [(1, 1), (0, 3), (100, 101), (20_000, 1)])
def test_reduce_scatter_adds_the_second_ranks_block_to_the_first_ranks(lengths):
    rng = np.random.default_rng(1)
    parts = rng.normal(size=(2, sum(lengths)))
    order = []

    @lightgbm_network._REDUCER
    def add(source, target, item, size):
        assert item == 8
        values = [(ctypes.c_double * (size // 8)).from_address(a) for a in (target, source)]
        order.append((values[0][:1], values[1][:1]))
        values[0][:] = (np.array(values[0]) + np.array(values[1])).tolist()

    reducer = ctypes.c_void_p(ctypes.cast(add, ctypes.c_void_p).value)

    def work(communicator):
        rank = communicator.rank
        scatter = lightgbm_network._REDUCE_SCATTER(communicator.functions[0])
        starts, sizes = int32s(0, 8 * lengths[0]), int32s(*(8 * n for n in lengths))
        output = np.zeros(lengths[rank])
        own = parts[rank].copy()
        scatter(own.ctypes.data, own.nbytes, 8, starts, sizes, 2, output.ctypes.data,
                output.nbytes, ctypes.byref(reducer))  # fmt: skip
        own[:] = np.nan  # the peer has read its block
        return output

    results = on_pair(work)
    assert np.concatenate(results).tobytes() == (parts[0] + parts[1]).tobytes()
    first = [(parts[0, [at]].tolist(), parts[1, [at]].tolist()) for at in (0, lengths[0])]
    assert all(entry in first for entry in order if entry[0])


def gather_root(communicator, content):
    """Return both roots, as LightGBM receives them."""
    gather = lightgbm_network._ALLGATHER(communicator.functions[1])
    output = ctypes.create_string_buffer(b"x" * 48, 48)
    gather(ctypes.cast(content, ctypes.c_void_p).value, 24, int32s(0, 24), int32s(24, 24), 2,
           ctypes.addressof(output), 48)  # fmt: skip
    return output.raw


def test_rows_of_a_root_are_converted_to_units_in_both_layouts():
    units = units_per_row(500)
    assert units == ROOT_UNITS // 500
    rows = (300, 200)
    roots = struct.pack("ddi4x", 0.5, 1.5, 300), struct.pack("i4xdd", 200, 1.5, 0.5)

    def work(communicator):
        with open_network(communicator, rows[communicator.rank], units) as check:
            both = gather_root(communicator, roots[communicator.rank])
            check()
        return both

    scaled = struct.pack("ddi4x", 0.5, 1.5, 300 * units)
    scaled += struct.pack("i4xdd", 200 * units, 1.5, 0.5)
    assert on_pair(work) == [scaled, scaled]


def test_an_unknown_layout_of_the_root_is_an_error_of_both_ranks():
    def work(communicator):
        communicator.state[kernel.ROWS] = 7 * communicator.rank
        assert gather_root(communicator, bytes(24)) == bytes(48)
        communicator.check()

    errors = on_pair(work)
    assert isinstance(errors[0], PeerLost)
    assert "another layout" in str(errors[1])


@pytest.mark.parametrize("delay", [0.0, 0.2], ids=["at once", "while the peer sleeps"])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_rank_that_fails_wakes_its_peer(failing, delay):
    def work(communicator):
        communicator.sum(np.ones(3))
        if communicator.rank == failing:
            time.sleep(delay)
            raise ZeroDivisionError("for a test")
        communicator.sum(np.ones(3))

    errors = on_pair(work)
    assert isinstance(errors[failing], ZeroDivisionError)
    assert isinstance(errors[1 - failing], PeerLost)
    assert str(errors[1 - failing]) == f"worker {failing} stopped: ZeroDivisionError: for a test"


def test_a_rank_that_finishes_early_wakes_its_peer_but_completes_the_exchange_before():
    def work(communicator):
        total = communicator.sum(np.ones(1))
        if communicator.rank == 1:
            time.sleep(0.05)
            communicator.sum(np.ones(1))
        return total.tolist()

    results = on_pair(work)
    assert results[0] == [2.0]
    assert "worker 0 stopped: it finished early" in str(results[1])


SETTINGS = {"num_leaves": 15, "learning_rate": 0.2, "min_data_in_leaf": 1, "seed": 5,
            "min_sum_hessian_in_leaf": 0.5}  # fmt: skip


def train(data, plan, threads=2, on_iteration=local_ranks.ignore):
    bins = sampled_bins(data, plan.learner())
    shards = _split_over_ranks(data, None, bins)
    return local_ranks.train_local_ranks(
        single_rank(), shards, plan, plan.learner(), TrainState(), threads=threads,
        on_iteration=on_iteration,
    )[0]  # fmt: skip


def shaped(queries, width, kind):
    data, rng = clicked_data(queries, seed=queries), np.random.default_rng(width)
    x = rng.normal(size=(data.pairs.rows, width)).astype(np.float32)
    x[:, 0] = data.features[:, 0]
    if kind == "missing":
        x[rng.random(x.shape) < 0.6] = np.nan
        x[:, -1] = np.nan
    if kind == "constant":
        x[:, 1:] = 3.0
    if kind == "coarse":
        x = np.round(x)
    return replace(data, features=x)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("queries", "width", "kind"),
    [(2, 1, "dense"), (3, 2, "missing"), (40, 1, "coarse"), (41, 300, "dense"),
     (150, 7, "missing"), (60, 30, "constant"), (400, 12, "coarse")],
)  # fmt: skip
def test_shared_memory_and_sockets_give_byte_identical_models(
    queries, width, kind, threads, monkeypatch
):
    data = shaped(queries, width, kind)
    plan = TrainPlan("joint", 8, SETTINGS, checkpoint_every=3)
    shared = train(data, plan, threads)
    monkeypatch.setattr(local_ranks, "local_pair", lambda: contextlib.nullcontext(connected_pair()))
    assert train(data, plan, threads) == shared


def test_several_trainings_at_once_in_one_process_do_not_mix():
    # LightGBM keeps one number of threads per process: trainings at once must agree on it.
    plan = TrainPlan("joint", 6, {**SETTINGS, "num_threads": 1})
    sizes = [30, 50, 70, 90]
    expected = [train(clicked_data(n), plan, 1).model for n in sizes]
    with ThreadPoolExecutor(len(sizes)) as pool:
        models = list(pool.map(lambda n: train(clicked_data(n), plan, 1).model, sizes))
    assert models == expected
    assert not kernel.TABLE[:, 0].any()


def test_an_error_in_a_callback_of_the_first_rank_ends_the_second_one():
    def fail(iteration, _):
        if iteration == 3:
            raise ZeroDivisionError("for a test")

    plan = TrainPlan("joint", 6, SETTINGS)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError, match="for a test"):
        train(clicked_data(30), plan, on_iteration=fail)
    assert threading.active_count() == before
    assert train(clicked_data(30), plan).num_iterations == 6


@pytest.mark.parametrize("reason", ["machine", "compiler", "table"])
def test_sockets_are_the_fallback(reason, monkeypatch):
    def fail():
        raise OSError("for a test")

    if reason == "machine":
        monkeypatch.setattr(local_communicator.platform, "machine", lambda: "riscv64")
    elif reason == "compiler":
        monkeypatch.setattr(kernel, "compile_collectives", fail)
    else:
        monkeypatch.setattr(kernel, "TABLE", np.ones_like(kernel.TABLE))
    with local_pair() as pair:
        assert [type(communicator) for communicator in pair] == [Communicator, Communicator]
        for communicator in pair:
            communicator.close()


def test_functions_are_compiled_without_a_cache_if_numba_can_write_to_no_folder(monkeypatch):
    calls, cfunc = [], kernel.cfunc

    def without_cache(signature, **options):
        calls.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return cfunc(signature, **options)

    monkeypatch.setattr(kernel, "cfunc", without_cache)
    functions = kernel.compile_collectives.__wrapped__()
    assert calls == [{"cache": True}, {}] * 4
    assert functions.allgather != kernel.compile_collectives().allgather
    monkeypatch.setattr(kernel, "compile_collectives", lambda: functions)
    assert [total.tolist() for total in on_pair(lambda c: c.sum(np.ones(2)))] == [[2, 2]] * 2


CACHED = """
import threading, numpy as np
from ulr.training.distributed.local_communicator import LocalCommunicator, local_pair
from ulr.training.distributed.peer import PeerLost
def work(communicator):
    assert isinstance(communicator, LocalCommunicator)
    with communicator:
        totals.append([int(communicator.sum(np.array([n]))[0]) for n in range(50)])
totals = []
with local_pair() as pair:
    threads = [threading.Thread(target=work, args=(rank,)) for rank in pair]
    [t.start() for t in threads], [t.join() for t in threads]
assert totals == [list(range(0, 100, 2))] * 2
"""


def test_functions_from_the_cache_use_the_table_of_their_process(tmp_path):
    files = []
    for _ in range(2):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", CACHED], check=True, env=environment, timeout=120)
        files.append({f: f.stat().st_mtime_ns for f in tmp_path.rglob("collectives.*")})
    assert len(files[0]) == 8  # an index and the code of four functions
    assert files[0] == files[1]
