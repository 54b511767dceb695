"""Importing this module loads the stored code of all kernels, so that forked processes have it."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import ulr.kernels
from ulr.kernels.jit import load_stored

for _module in pkgutil.iter_modules(ulr.kernels.__path__, "ulr.kernels."):
    if _module.name != __name__:
        load_stored(import_module(_module.name))
