"""SQL with which DuckDB, Spark and Trino read the published version of every table.

A partition's folder holds the published version beside replaced ones, which stay for a while, so a
glob over the folders reads rows twice. The views name the published folders and files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Literal

import pyarrow as pa

from ulr.errors import DamagedTable
from ulr.redact import redact_text
from ulr.warehouse.catalog import PublishedTable, published_tables
from ulr.warehouse.schema import logged_features_schema, quarantine_schema
from ulr.warehouse.storage import Storage, write_file

Engine = Literal["duckdb", "spark", "trino"]
ENGINES: tuple[Engine, ...] = ("duckdb", "spark", "trino")
SCHEMA = "ulr"  # of the tables in Trino
# The schemas of tables that are published without a file if they have no rows.
_EMPTY = {"quarantine": quarantine_schema, "logged_features": logged_features_schema}
_TYPES = {
    "duckdb": {"int32": "INTEGER", "string": "VARCHAR", "double": "DOUBLE", "float": "FLOAT",
               "int64": "BIGINT", "bool": "BOOLEAN", "timestamp": "TIMESTAMPTZ"},
    "spark": {"int32": "INT", "string": "STRING", "double": "DOUBLE", "float": "FLOAT",
              "int64": "BIGINT", "bool": "BOOLEAN", "timestamp": "TIMESTAMP"},
    # The Hive connector refuses another precision of timestamps unless it is configured.
    "trino": {"int32": "integer", "string": "varchar", "double": "double", "float": "real",
              "int64": "bigint", "bool": "boolean", "timestamp": "timestamp(3)"},
}  # fmt: skip
_ARRAYS = {"duckdb": "{}[]", "spark": "ARRAY<{}>", "trino": "array({})"}
_HOW = {
    "duckdb": ["Run it with `duckdb -init FILE`, or `.read FILE`."],
    "spark": ["The views are temporary: run it at the start of a session, as in `spark-sql -i`."],
    "trino": [
        "Trino cannot name files in a view: these are external tables of the Hive connector, with",
        "a partition registered for every published folder. The catalog needs",
        "hive.allow-register-partition-procedure=true. Give the catalog to the client.",
        "A table is missing for a moment while it is replaced. Dropping it deletes no file.",
    ],
}


def views(storage: Storage, engine: Engine) -> str:
    """Return the statements for all tables of a warehouse, without those of its re-runs.

    Raises DamagedTable if a manifest is damaged, because its table would lack rows.
    """
    tables = [table for table in published_tables(storage) if "/" not in table.name]
    location = redact_text(storage.url.partition("?")[0])
    head = [
        f"The published tables of {location}, for {engine}.",
        "The next night publishes new versions; the files named here are then kept for",
        "warehouse.keep_days. Write this file again after every night (warehouse.views).",
        *_HOW[engine],
    ]
    lines = [f"-- {line}" for line in head]
    if engine == "trino":
        lines.append(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA};")
    for table in tables:
        if table.damaged:
            broken = next(name for name, m in table.partitions.items() if m is None)
            raise DamagedTable(
                f"the manifest of {table.name} {broken}".rstrip() + " is damaged; find the stage "
                "that rebuilds it with `ulr doctor --verify`"
            )
        lines += ["", *_statements(table, engine)]
    return "\n".join(lines) + "\n"


def write_views(storage: Storage, targets: Mapping[Engine, str]) -> None:
    """Write the views of each engine to its path or URL."""
    for engine, url in targets.items():
        write_file(url, views(storage, engine))


def _statements(table: PublishedTable, engine: Engine) -> list[str]:
    schema = table.schema() or _EMPTY.get(table.name)
    if schema is None:
        return [f"-- {table.name} has no Parquet files"]
    write: dict[Engine, Callable[[PublishedTable, pa.Schema], list[str]]] = {
        "duckdb": _duckdb, "spark": _spark, "trino": _trino
    }  # fmt: skip
    if not any(table.parquet()) and engine != "trino":
        return [_empty_view(table, schema, engine)]
    return write[engine](table, schema)


def _duckdb(table: PublishedTable, schema: pa.Schema) -> list[str]:
    key = _key(table, schema)
    columns = [_quoted(name) for name in (*schema.names, *([key] if key else []))]
    options = ["union_by_name = true"] if _several_schemas(table) else []
    if key:
        kind = "DATE" if _has_dates(table) else "VARCHAR"
        options += ["hive_partitioning = true", f"hive_types = {{{_literal(key)}: {kind}}}"]
    else:
        options += ["hive_partitioning = false"]
    files = ",\n".join(f"  {_literal(_url(table.storage, path))}" for _, path in table.parquet())
    return [f"CREATE OR REPLACE VIEW {_quoted(table.name)} AS SELECT {', '.join(columns)}",
            f"FROM read_parquet([\n{files}\n], {', '.join(options)});"]  # fmt: skip


def _spark(table: PublishedTable, schema: pa.Schema) -> list[str]:
    folders = list(dict.fromkeys(path.rpartition("/")[0] for _, path in table.parquet()))
    root = f"{_url(table.storage, table.name)}/"
    below = [_glob(folder.removeprefix(f"{table.name}/")) for folder in folders]
    path = _glob(root) + (below[0] if len(below) == 1 else "{" + ",".join(below) + "}")
    options = [f"path {_spark_literal(path)}"]
    if _key(table, schema):  # Spark then reads the partition from the folder's name
        options.append(f"basePath {_spark_literal(root)}")
    if _several_schemas(table):
        options.append("mergeSchema 'true'")
    return [f"CREATE OR REPLACE TEMPORARY VIEW `{table.name}` USING parquet OPTIONS (",
            "  " + ",\n  ".join(options), ");"]  # fmt: skip


def _trino(table: PublishedTable, schema: pa.Schema) -> list[str]:
    partitioned = any(table.partitions)
    key = next(iter(table.partitions)).partition("=")[0] if partitioned else ""
    columns = [f"  {_quoted(field.name)} {_type(field.type, 'trino')}"
               for field in schema if field.name != key]  # fmt: skip
    where = table.name if partitioned else "/".join(table.folder(""))
    options = ["format = 'PARQUET'", f"external_location = {_literal(_file_url(table, where))}"]
    if partitioned:
        columns.append(f"  {_quoted(key)} {'date' if _has_dates(table) else 'varchar'}")
        options.append(f"partitioned_by = ARRAY[{_literal(key)}]")
    lines = [f"DROP TABLE IF EXISTS {SCHEMA}.{_quoted(table.name)};",
             f"CREATE TABLE {SCHEMA}.{_quoted(table.name)} (", ",\n".join(columns),
             f") WITH ({', '.join(options)});"]  # fmt: skip
    with_files = {partition for partition, _ in table.parquet()} if partitioned else set()
    for partition in sorted(with_files):
        location = _file_url(table, "/".join(table.folder(partition)))
        value = partition.partition("=")[2]
        lines.append(
            f"CALL system.register_partition({_literal(SCHEMA)}, {_literal(table.name)}, "
            f"ARRAY[{_literal(key)}], ARRAY[{_literal(value)}], {_literal(location)});"
        )
    return lines


def _empty_view(table: PublishedTable, schema: pa.Schema, engine: Engine) -> str:
    """Return a view without rows but with all columns."""
    mark = "`" if engine == "spark" else '"'
    fields = [(field.name, _type(field.type, engine)) for field in schema]
    if key := _key(table, schema):
        fields.append((key, "DATE" if _has_dates(table) else _TYPES[engine]["string"]))
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {mark}{name}{mark}" for name, kind in fields)
    view = "TEMPORARY VIEW" if engine == "spark" else "VIEW"
    return f"CREATE OR REPLACE {view} {mark}{table.name}{mark} AS SELECT {columns} WHERE false;"


def _key(table: PublishedTable, schema: pa.Schema) -> str:
    """Return the column that only the names of the partitions have, "" without one."""
    key = next(iter(table.partitions)).partition("=")[0]
    return "" if key in schema.names else key


def _has_dates(table: PublishedTable) -> bool:
    return all(_is_date(partition.partition("=")[2]) for partition in table.partitions)


def _is_date(text: str) -> bool:
    try:
        return str(dt.date.fromisoformat(text)) == text
    except ValueError:
        return False


def _several_schemas(table: PublishedTable) -> bool:
    """Return whether versions of different schemas are published, which lack columns."""
    return len({manifest.schema_version for manifest in table.manifests}) > 1


def _type(kind: pa.DataType, engine: Engine) -> str:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _ARRAYS[engine].format(_type(kind.value_type, engine))
    return _TYPES[engine]["timestamp" if pa.types.is_timestamp(kind) else str(kind)]


def _url(storage: Storage, path: str) -> str:
    """Return an absolute path, or a URL without options and passwords."""
    return redact_text(storage.child(path).partition("?")[0])


def _file_url(table: PublishedTable, path: str) -> str:
    url = _url(table.storage, path)
    return url if "://" in url else f"file://{url}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _spark_literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _glob(text: str) -> str:
    """Return the text with the characters escaped that have a meaning in Hadoop's globs."""
    return "".join(f"\\{c}" if c in "{}[]*?,\\" else c for c in text)
