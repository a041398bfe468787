"""How Spark runs in tests, for those who begin it and for those who are begun; without Spark."""

#: Queries of some rows: what makes large ones fast is most of what these would cost.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.factory.idleWorkerMaxPoolSize": "2",
}
#: What Spark says where Python is not there within ten seconds, which cannot be changed: a machine
#: with very much else to do. Nothing was done by then, so it is begun again, at most so often.
TOO_BUSY = "Python worker failed to connect back"
TRIES = 5
