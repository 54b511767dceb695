"""Package metadata: the library, the `ulr` command and the default settings.

The ranges below are the compatible versions; requirements.lock pins the tested ones.
"""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
HOME = "https://example.org/ulr"  # a placeholder until the repository has a public address
VERSION = (HERE / "ulr" / "version.py").read_text().split('__version__ = "')[1].split('"')[0]

setup(
    name="ulr",
    version=VERSION,
    description="Unbiased learning to rank from click logs, on one machine or on Spark",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    url=HOME,
    project_urls={"Documentation": f"{HOME}/docs", "Changelog": f"{HOME}/CHANGELOG.md"},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Internet :: WWW/HTTP :: Indexing/Search",
        "Typing :: Typed",
    ],
    # The settings are part of the package, so that they are found in a zip on a cluster too.
    packages=[*find_packages(include=["ulr", "ulr.*"]), "ulr.conf"],
    package_dir={"ulr.conf": "conf"},
    package_data={
        "ulr": ["py.typed"],
        "ulr.conf": ["*.yaml", "logs/*.yaml"],
        "ulr.report": ["*.css", "*.js", "templates/*.html"],
    },
    install_requires=[
        "cryptography>=43",  # the training network
        "Jinja2>=3.1",
        "lightgbm>=4.7,<5",
        "MarkupSafe>=2.1",
        "mlflow>=3.10,<4",
        "numba>=0.61",
        "numpy>=1.26",
        "obstore>=0.8",  # conditional writes on object stores
        "pandas>=2.2,<3",  # required by Spark's mapInArrow, which warns from version 3 on
        "pyarrow>=18",
        "pydantic>=2.9,<3",
        "PyYAML>=6",
        "rich>=13",
        "scipy>=1.13",
        "threadpoolctl>=3",  # installed by scikit-learn, which mlflow requires
    ],
    extras_require={
        # Not needed on a cluster, which brings its own.
        "spark": ["pyspark>=3.5,<5"],
        # The Estimator with a session of Spark Connect
        "connect": ["pyspark[connect]>=3.5,<5"],
        # moto: an S3 server for tests; duckdb: another engine that reads the tables
        "dev": [
            "duckdb>=1",
            "hypothesis>=6",
            "import-linter>=2",
            "moto[s3]>=5",
            "mypy>=1.15",
            "onnxruntime>=1.18",
            "pyspark[connect]>=3.5,<5",
            "pytest>=8",
            "pytest-cov>=6",
            "pytest-xdist>=3",
            "ruff>=0.9",
            "types-PyYAML",
        ],
        # ulr export --format onnx
        "onnx": ["onnx>=1.16"],
        "bench": ["duckdb>=1", "xgboost>=3"],
        # An MLflow server with authentication, on PostgreSQL
        "server": ["mlflow[auth]>=3.10,<4", "psycopg2-binary>=2.9"],
    },
    entry_points={"console_scripts": ["ulr = ulr.cli.main:main"]},
)
