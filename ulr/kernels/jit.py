"""The decorator of all kernels: compiled on the first call, once per machine.

numba stores compiled code by source, signature and processor. On top of that:

- One process at a time compiles, under a file lock. The others load its result.
- The code is stored in the first of these folders that is writable: NUMBA_CACHE_DIR, __pycache__ of
  the package, the user's cache, a temporary folder. A package that cannot be written still serves
  the code that was stored in it before, as by `ulr warm-up` while an image is built. A folder that
  another user can write is not used: code in it would be executed.
- A change of any file of this room invalidates all code: kernels inline each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, TypeVar

import numba
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock

from ulr.folders import is_trusted, private_folder

F = TypeVar("F", bound=Callable[..., Any])
LOCK_TIMEOUT_S = 300.0  # then the process compiles without the lock
PACKAGE = str(Path(__file__).parent / "__pycache__")
_POLL_S = 0.05


def kernel(*, allocates: bool = True, **options: Any) -> Callable[[F], F]:
    """Return a decorator for a kernel, which runs without the interpreter's lock.

    allocates: False leaves out the counting of references to arrays, which costs time in a loop
    over short lists; such a kernel must not create arrays. options: those of numba.njit.
    """

    def compile_on_call(function: F) -> F:
        njit: Any = numba.njit  # _nrt is not among its typed options
        dispatcher = njit(nogil=True, _nrt=allocates, **options)(function)
        dispatcher._cache = _Cache(function)
        dispatcher.compile = functools.partial(_compile, dispatcher, dispatcher.compile)
        compiled: F = dispatcher
        return compiled

    return compile_on_call


def load_stored(module: ModuleType) -> None:
    """Load the stored code of the kernels of a module; nothing is compiled."""
    for dispatcher in vars(module).values():
        cache = getattr(dispatcher, "_cache", None)
        if isinstance(cache, _Cache) and dispatcher.py_func.__module__ == module.__name__:
            for signature in cache.stored_signatures(dispatcher.targetctx.codegen()):
                dispatcher.compile(signature)


def code_folder() -> str:
    """Return the folder in which compiled code is stored."""
    return str(_Cache(_try_lock).cache_path)


def is_cached_safely(function: Callable[..., Any]) -> bool:
    """Return whether numba's own cache of a function is in a folder that only we can write."""
    return _trusted(_Storage(function).locator.get_cache_path())


def stored_functions() -> set[tuple[str, int]]:
    """Return the files of compiled functions in that folder, with the time they were written."""
    files = Path(code_folder()).glob("*.nbc")
    return {(file.name, file.stat().st_mtime_ns) for file in files}


class _Lock:
    """A file lock per folder that is held until the kernel which took it is stored."""

    def __init__(self) -> None:
        self.depth = 0
        self._file: TextIO | None = None

    def acquire(self, folder: str) -> None:
        self.depth += 1
        if self._file is not None:
            return
        with contextlib.suppress(OSError):
            self._file = Path(folder, "compile.lock").open("a")  # noqa: SIM115 # closed by release
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while not _try_lock(self._file) and time.monotonic() < deadline:
                time.sleep(_POLL_S)

    def release(self, depth: int) -> None:
        self.depth = depth
        if depth == 0 and self._file is not None:
            self._file.close()
            self._file = None


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_lock = _Lock()


def _compile(dispatcher: Any, compile_now: Callable[[Any], Any], signature: Any) -> Any:
    with global_compiler_lock:
        depth = _lock.depth
        try:
            return compile_now(signature)
        finally:
            _lock.release(depth)


# The class has an underscore before numba 0.62.
_Locator: Any = getattr(caching, "UserWideCacheLocator", vars(caching).get("_UserWideCacheLocator"))


class _TemporaryFolder(_Locator):
    """A folder under /tmp that only this user can write to, if there is no other."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(_temporary_folder())


@functools.cache
def _temporary_folder() -> Path:
    return private_folder("ulr-kernels")


@functools.cache
def _trusted(folder: str) -> bool:
    """Return whether compiled code may be loaded from the folder: it is executed.

    The owner of the package could change its Python code as well.
    """
    owners = []
    with contextlib.suppress(OSError):  # in a zip file
        owners.append(Path(__file__).parent.stat().st_uid)
    return is_trusted(Path(folder), *owners)


class _Storage(caching.CompileResultCacheImpl):
    _locator_classes = [*caching.CompileResultCacheImpl._locator_classes, _TemporaryFolder]  # noqa: RUF012


class _Cache(caching.FunctionCache):
    """numba's cache of a function, with the lock and the code stored in the package."""

    _impl_class = _Storage

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        if not _trusted(self._cache_path):
            self._cache_path = str(_temporary_folder())
        self._files = [
            caching.IndexDataCacheFile(folder, self._impl.filename_base, _source_stamp())
            for folder in dict.fromkeys([self._cache_path, PACKAGE])
            if folder == self._cache_path or _trusted(folder)
        ]
        self._cache_file = self._files[0]

    def stored_signatures(self, codegen: Any) -> set[Any]:
        """Return the signatures whose code is stored for this processor."""
        keys = {key for file in self._files for key in file._load_index()}
        return {key[0] for key in keys if key == self._index_key(key[0], codegen)}

    def _load_overload(self, signature: Any, context: Any) -> Any:
        result = self._load(signature, context)
        if result is None:
            _lock.acquire(self._cache_path)
            result = self._load(signature, context)
        return result

    def _load(self, signature: Any, context: Any) -> Any:
        key = self._index_key(signature, context.codegen())
        for file in self._files:
            with contextlib.suppress(OSError):
                if (data := file.load(key)) is not None:
                    return self._impl.rebuild(context, data)
        return None


@functools.cache
def _source_stamp() -> str:
    """Return a hash of all files of this room."""
    return hashlib.sha256(b"".join(_sources())).hexdigest()


def _sources() -> Iterator[bytes]:
    files = resources.files("ulr.kernels")
    for file in sorted(files.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            yield file.read_bytes()
