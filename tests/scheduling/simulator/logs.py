"""Hand-made event logs for tests of the report."""

from typing import Any

from scheduling.simulator.report import Report


class Written:
    """Tells events to a report, numbered, and keeps them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.seq = 0

    def tell(self, t: float, event: str, **more: Any) -> None:
        self.seq += 1
        told = {"seq": self.seq, "t": t, "event": event, "policy": 1}
        self.report.take(told | {key.rstrip("_"): value for key, value in more.items()})

    def queue(self, t: float, job: str, tenant: str, **more: Any) -> None:
        self.tell(
            t, "queued", job=job, tenant=tenant, **({"reason": "in_order", "facts": {}} | more)
        )

    def place(self, t: float, job: str, tenant: str, **more: Any) -> None:
        given = {
            "executor": "gpu-a", "turn": 1, "class_": "normal", "cost": 1, "free_before": 1,
            "free_after": 0, "reason": "placed",
        }  # fmt: skip
        told = given | more
        self.tell(t, "placed", job=job, tenant=tenant, **({"charge": told["cost"]} | told))

    def finish(self, t: float, job: str, tenant: str, **more: Any) -> None:
        given = {"reason": "finished", "waited_s": 1.0, "ran_s": 1.0, "incurred": "0.5"}
        self.tell(t, "finished", job=job, tenant=tenant, **(given | more))


def summary(**more: Any) -> dict[str, Any]:
    return {
        "event": "summary", "tenants": {}, "classes": {}, "workflows": {}, "makespan_s": 10.0,
        "utilisation": 0.5, "jain": None, "mean_bounded_slowdown": None,
        "max_bounded_slowdown": None, "eta": {"count": 0}, "cost": {}, "counts": {},
    } | more  # fmt: skip
