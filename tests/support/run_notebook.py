"""Run the code cells of a notebook in this process, without Jupyter.

    python -m tests.support.run_notebook FILE

Modules that the notebook API does not need cannot be imported. Prints the numbers that the test
checks, as one JSON document.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def run(path: Path) -> dict[str, Any]:
    """Return the variables that the cells leave."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"{path.name}, {cell['id']}", "exec"), names)
    return names


if __name__ == "__main__":
    sys.modules.update(dict.fromkeys(("pyspark", "mlflow", "rich"), None))
    left = run(Path(sys.argv[1]))
    print(json.dumps({
        "curve": left["curve"].astype(object).to_dict("list"),
        "quality": left["quality"],
        "metrics": left["metrics"].astype(object).where(left["metrics"].notna(), None)
        .to_dict("records"),
        "judged": left["judged"][["rating", "lower", "upper"]].to_dict("list"),
    }, default=float))  # fmt: skip
