from __future__ import annotations

import struct

import pytest

from ulr.training.distributed.communicator import single_rank
from ulr.training.distributed.lightgbm_network import ROOT_UNITS, Network, units_per_row


def test_rows_of_a_root_are_converted_to_units_and_an_unknown_layout_is_an_error():
    network = Network(single_rank(), rows=300, units=units_per_row(500))
    message = network._scale_rows(struct.pack("ddi4x", 2.5, -1.0, 300))
    assert struct.unpack("ddi4x", message) == (2.5, -1.0, 300 * (ROOT_UNITS // 500))
    with pytest.raises(RuntimeError, match="another layout"):
        network._scale_rows(bytes(24))
