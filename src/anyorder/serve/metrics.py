"""What Prometheus is told: the queue, how full batches are, steps, latencies, tokens, refusals."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
STEP = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Meters:
    """The meters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self.requests = Counter("anyorder_requests", "Requests answered.", ["route", "status"], registry=r)
        self.latency = Histogram(
            "anyorder_request_seconds", "From a request to the end of its answer.", ["route"], buckets=SECONDS,
            registry=r,
        )  # fmt: skip
        self.refused = Counter(
            "anyorder_refused", "Requests refused: queue full, rate, deadline, key.", ["why"], registry=r
        )
        self.held = Gauge("anyorder_queue_sentences", "Sentences waiting or being written.", registry=r)
        self.waiting = Gauge("anyorder_rows_waiting", "Rows that wait for room in a batch.", registry=r)
        self.steps = Counter("anyorder_steps", "Steps of the model, each over a batch of rows.", registry=r)
        self.step_seconds = Histogram("anyorder_step_seconds", "Time of one step.", buckets=STEP, registry=r)
        self.rows = Histogram("anyorder_batch_rows", "Rows in a batch, at each step.", buckets=ROWS, registry=r)
        self.fill = Histogram(
            "anyorder_batch_fill", "Share of the token budget in use, at each step.", buckets=SHARES, registry=r
        )
        self.tokens = Counter("anyorder_tokens", "Tokens read and written.", ["kind"], registry=r)

    def stepped(self, rows: int, fill: float, seconds: float, waiting: int) -> None:
        """A step was taken."""
        self.steps.inc()
        self.step_seconds.observe(seconds)
        self.rows.observe(rows)
        self.fill.observe(fill)
        self.waiting.set(waiting)

    def refuse(self, why: str) -> None:
        """A request was refused: queue, rate, key or deadline."""
        self.refused.labels(why).inc()

    def text(self) -> bytes:
        """In Prometheus' own format."""
        return generate_latest(self.registry)
