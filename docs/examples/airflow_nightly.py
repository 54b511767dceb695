"""An Airflow DAG that runs one night of ulr per day, and fills in the days before.

It needs Airflow 3 with the provider apache-spark and a Spark connection. The exit code of
`spark-submit` is not that of ulr in the deploy mode `cluster`, so the task reads the document that
`--result` writes: exit code 1 may succeed if it is run again, 2 and 3 do not.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, ObjectStoragePath, Variable
from airflow.timetables.interval import CronDataIntervalTimetable

# Where the results are written: a folder that the driver and the Airflow worker can both reach.
RESULTS = Variable.get("ulr_results", default="file:///tmp/ulr-results")
JOBS = Variable.get("ulr_jobs", default="/opt/ulr/jobs")
CONF = Variable.get("ulr_conf", default="/opt/ulr/conf/cluster.yaml")


def may_succeed_again(document: Any) -> bool:
    """Return whether a failed command may succeed if it is run again.

    document: of `--result`; None if there is none, because the driver was killed.
    """
    return document is None or document.get("exit_code", 1) not in (2, 3)


class Night(SparkSubmitOperator):
    """One night. It is retried only if that may help.

    result: the path or URL that the job writes its document to.
    """

    template_fields = (*SparkSubmitOperator.template_fields, "result")

    def __init__(self, *, result: str, **options: Any) -> None:
        super().__init__(**options)
        self.result = result

    def execute(self, context: Any) -> Any:
        """Run the job; return the summary of the night, which goes to XCom."""
        try:
            super().execute(context)
        except AirflowException as error:
            document = self.read_result()
            text = f"{error}; ulr: {json.dumps(document)}"
            if may_succeed_again(document):
                raise AirflowException(text) from error
            raise AirflowFailException(text) from error  # no retry
        return self.read_result()

    def read_result(self) -> Any:
        """Return the document of the job, or None without one."""
        path = ObjectStoragePath(self.result)
        return json.loads(path.read_text()) if path.exists() else None


with DAG(
    dag_id="ulr_nightly",
    # At 03:00, when the log of the day before is complete. The interval is that day.
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
    catchup=True,  # also the days since start_date that have no run
    max_active_runs=1,  # one night after the other, in the order of their dates
    tags=["ulr"],
) as dag:
    date = "{{ data_interval_start | ds }}"
    result = f"{RESULTS}/{date}.json"
    Night(
        task_id="night",
        conn_id="spark_default",
        application=f"{JOBS}/nightly.py",
        application_args=["--conf", CONF, "--date", date, "--result", result],
        result=result,
        retries=3,
        retry_delay=dt.timedelta(minutes=10),
        retry_exponential_backoff=True,
        execution_timeout=dt.timedelta(hours=6),
    )
