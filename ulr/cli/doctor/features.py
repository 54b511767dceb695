"""The features: found, readable, and of numbers."""

from __future__ import annotations

from importlib import import_module

from pyarrow.fs import FileType

from ulr.cli.doctor.checks import OK, WARNING, Finding
from ulr.config.settings import Settings
from ulr.warehouse.filesystem import open_filesystem


def features_are_readable(settings: Settings) -> Finding:
    """Open the features as `pairs` does, and read the first rows."""
    chosen = settings.features
    if chosen.source == "table" and chosen.table is None:
        fs, path = open_filesystem(chosen.path)
        if fs.get_file_info(path).type == FileType.NotFound:
            where = f"nothing at features.path = {chosen.path}"
            if chosen.path.startswith(f"{settings.simulate.path}/"):
                return Finding(OK, f"{where} yet; `ulr simulate` writes it")
            return Finding(WARNING, where)
    engine = import_module("ulr.cli.engines").make_engine("doctor", settings)
    features = import_module("ulr.features.source")
    describe = import_module("ulr.features.describe")
    warehouse = import_module("ulr.warehouse.tables").open_warehouse(settings.warehouse)
    if chosen.source == "log" and not warehouse.partitions("logged_features"):
        return Finding(OK, "none read from the log yet; `ulr groups` reads them (log.features)")
    source = features.open_features(engine, warehouse, chosen)
    return Finding(OK, describe.describe_features(source))
