"""Installs the package, the `ulr` command and the default settings.

Ranges here say what is compatible; requirements.lock pins what is tested.
"""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = (HERE / "ulr" / "version.py").read_text().split('__version__ = "')[1].split('"')[0]

setup(
    name="ulr",
    version=VERSION,
    description="Unbiased learning to rank from click logs, on Spark and LightGBM",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    # The settings travel inside the package: they must be found in a zip on a cluster, too.
    packages=[*find_packages(include=["ulr", "ulr.*"]), "ulr.conf"],
    package_dir={"ulr.conf": "conf"},
    package_data={"ulr.conf": ["*.yaml"], "ulr.report": ["*.css", "*.js"]},
    install_requires=[
        "lightgbm>=4.7,<5",
        "matplotlib>=3.9",
        "mlflow>=3,<4",
        "numba>=0.61",
        "numpy>=2",
        "pandas>=2.2,<3",  # Spark's mapInArrow will not start without it, and warns from 3 on
        "pyarrow>=18",
        "pydantic>=2.9,<3",
        "pyspark>=4.1,<5",
        "PyYAML>=6",
        "rich>=13",
        "scipy>=1.13",
    ],
    extras_require={
        # moto: an S3 server to test against, the only one that installs from an index
        "dev": [
            "hypothesis>=6",
            "import-linter>=2",
            "moto[s3]>=5",
            "mypy>=1.15",
            "pytest>=8",
            "pytest-cov>=6",
            "pytest-xdist>=3",
            "ruff>=0.9",
            "types-PyYAML",
        ],
        "bench": ["duckdb>=1", "xgboost>=3"],
        "server": ["psycopg2-binary>=2.9"],  # an MLflow server on PostgreSQL
    },
    entry_points={"console_scripts": ["ulr = ulr.cli.main:main"]},
)
