"""What each caller is answered at each address: the table that the walk of all routes goes by.

Columns, in this order: somebody who is not signed in; an operator; of the tenant `hush` its admin,
submitter, reviewer, billing viewer and viewer; an admin of its workspace `hush-ops` alone; an admin
of another tenant. The objects asked for are those of the workspace `hush/hush-web`. A `+` says that
the answer names one of them; where there is none, it must not. Words in capitals stand for ids. 503 on the order: the caller has got
through, and no order is published here.
"""

from dataclasses import dataclass, field
from typing import Any

CALLERS = (
    "nobody", "operator", "tenant_admin", "submitter", "reviewer", "billing_viewer", "viewer",
    "sister", "foreigner",
)  # fmt: skip
API = "api/v1/"


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call and its answers; `action` is what the audit then says, "" where it says nothing."""

    method: str
    route: str
    answers: str
    body: dict[str, Any] | None = None
    action: str = ""
    query: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.method} /{self.route}"


def get(route: str, answers: str, **query: str) -> Call:
    return Call(method="GET", route=route, answers=answers, query=query)


def post(route: str, answers: str, action: str = "", **body: Any) -> Call:
    return Call(method="POST", route=route, answers=answers, action=action, body=body)


def put(route: str, answers: str, action: str = "", **body: Any) -> Call:
    return Call(method="PUT", route=route, answers=answers, action=action, body=body)


JOB = {"workflow": "hush-build", "kind": "simulated", "payload": {"seconds": 1}}
MINE = {"workspace": "hush/hush-web"}
WHY = {"reason": "a walk"}
CEILING = {"tenant": "hush", "scope": "workspace", "dimension": "spend"}
#             nobody operator admin submitter reviewer billing viewer sister foreigner
SEES_JOB = "  401    200+    200+   200+      200+     404    200+   404    404"
ANY_MEMBER = "401    200     200    200       200      200    200    200    200"
ON_JOB = "    401    200+    200+   200+      403      404    403    404    404"
SUBMITS = "   401    200     200    200       403      403    403    404    404"
ORDER = "     401    503     503    503       503      404    503    503    404"
OPERATES = "  401    200     403    403       403      404    403    403    404"
PICKS = "     401    200     403    403       403      404    403    404    404"
SHARED = "    401    200     403    403       403      403    403    403    403"
MANAGES = "   401    200+    200+   403       403      404    403    404    404"
WHOLE = "     401    200     200    200       200      404    200    403    404"
FLOWS = "     401    200     200    403       403      404    403    403    404"
POLICY = "    401    200     404    404       404      404    404    404    404"
DRAFTS = "    401    201     404    404       404      404    404    404    404"
TRIES = "     401    202     404    404       404      404    404    404    404"
SETS = "      401    200+    200+   403       403      403    403    403    404"
DEFAULTS = "  401    200     200    403       403      403    403    403    404"
RAISES = "    401    200+    200+   404       404      403    404    404    404"
UPS = "       401    200+    403    403       403      403    403    403    403"
HOOKS = "     401    201+    201+   403       403      403    403    403    404"
HOOK = "      401    200+    200+   404       404      404    404    404    404"
REVIEWS = "   401    200+    200+   403       200+     404    403    404    404"
OPEN = "      200    200     200    200       200      200    200    200    200"
NOTHING = "   404    404     404    404       404      404    404    404    404"

CALLS = [
    get(f"{API}jobs", "401 200+ 200+ 200+ 200+ 200 200+ 200 200"),
    get(f"{API}jobs", "401 200+ 200+ 200+ 200+ 404 200+ 404 404", workspace="hush/hush-web"),
    get(f"{API}jobs", "401 200+ 200+ 200+ 200+ 404 200+ 200 404", tenant="hush"),
    post(f"{API}jobs", "401 201+ 201+ 201+ 403 403 403 404 404", **MINE, **JOB),
    post(f"{API}jobs/bulk", SUBMITS, **MINE, jobs=[JOB]),
    post(f"{API}jobs/dry-run", SUBMITS, **MINE, **JOB),
    post(f"{API}jobs/what-if", SUBMITS, **MINE, **JOB),
    post(f"{API}jobs/cancel", ON_JOB, "job_cancel", ids=["JOB"], **WHY),
    get(f"{API}jobs/JOB", SEES_JOB),
    get(f"{API}jobs/ENDED", SEES_JOB, wait="5", wait_for="running"),
    post(f"{API}jobs/JOB/cancel", ON_JOB, "job_cancel", **WHY),
    post(f"{API}jobs/manage", ON_JOB, "job_pause", action_="pause", ids=["JOB"], **WHY),
    post(f"{API}jobs/JOB/prioritise", ON_JOB, "job_prioritise", class_="batch", **WHY),
    post(f"{API}jobs/JOB/pause", ON_JOB, "job_pause", **WHY),
    post(f"{API}jobs/PAUSED/resume", ON_JOB, "job_resume", **WHY),
    post(f"{API}jobs/ENDED/requeue", ON_JOB, "job_requeue", **WHY),
    get(f"{API}jobs/JOB/explain", SEES_JOB),
    post(f"{API}jobs/JOB/what-if", "401 200 200 200 200 404 200 404 404", class_="batch"),
    get(f"{API}jobs/JOB/events", "401 200 200 200 200 404 200 404 404"),
    get(f"{API}jobs/JOB/decisions", "401 200 200 200 200 404 200 404 404"),
    get(f"{API}reviews", "401 200+ 200+ 200 200+ 200 200 200 200"),
    get(f"{API}reviews", "401 200+ 200+ 200 200+ 404 200 200 404", tenant="hush"),
    post(f"{API}reviews/REVIEW/claim", REVIEWS),
    post(f"{API}reviews/REVIEW/accept", REVIEWS, note="good"),
    post(f"{API}reviews/REVIEW/reject", REVIEWS, note="bad"),
    post(f"{API}reviews/TAKEN/release", "401 409 409 403 409 404 403 404 404"),
    get(f"{API}queue", ORDER, tenant="hush"),
    get(f"{API}pools", ANY_MEMBER),
    get(f"{API}forecast", "401 200+ 200+ 200 200 200+ 200 200 200"),
    get(f"{API}forecast/honesty", ANY_MEMBER),
    get(f"{API}executors", "401 200+ 200+ 200+ 200+ 200 200+ 200 200"),
    get(f"{API}tenants", "401 200+ 200+ 200+ 200+ 200 200+ 200 200"),
    get(f"{API}shares", ANY_MEMBER),
    get(f"{API}costs", "401 200+ 200+ 403 403 200+ 403 200 200", by="workspace"),
    get(f"{API}costs", "401 200+ 200+ 404 404 200+ 404 200 404", tenant="hush", by="workspace"),
    post(f"{API}tenants/hush/weight", OPERATES, "tenant_weight", weight=0, **WHY),
    get(f"{API}tenants/hush/limits", WHOLE),
    post(f"{API}tenants/hush/limits", OPERATES, "tenant_limit", max_running=1, **WHY),
    post(f"{API}workspaces/hush/hush-web/weight", MANAGES, "workspace_weight", weight=2, **WHY),
    get(f"{API}workspaces/hush/hush-web/limits", "401 200 200 200 200 404 200 404 404"),
    post(f"{API}workspaces/hush/hush-web/limits", MANAGES, "workspace_limit", max_running=1, **WHY),
    post(f"{API}workflows/hush/hush-build/cost", OPERATES, "workflow_cost", cost=2, **WHY),
    get(f"{API}workflows/hush/hush-build/limits", WHOLE),
    post(f"{API}workflows/hush/hush-build/limits", FLOWS, "workflow_limit", max_running=1, **WHY),
    post(f"{API}pools/main/dial", SHARED, "pool_dial", budget=9, **WHY),
    *(
        post(f"{API}executors/{slug}/{lever}", answers, f"executor_{lever.removeprefix('un')}",
             **body, **WHY)
        for slug, answers in (("hush-web-sim", PICKS), ("main-sim", SHARED))
        for lever, body in (("drain", {}), ("undrain", {}), ("capacity", {"slots": 3}))
    ),
    post(f"{API}executors/main-sim/enable", SHARED, "executor_enable", **WHY),
    post(f"{API}executors/main-sim/disable", SHARED, "executor_enable", **WHY),
    get(f"{API}limits", ANY_MEMBER),
    put(f"{API}limits", SHARED, "limit_set", scope="global", measure="running", value=9, **WHY),
    get(f"{API}limits/raises", "401 200+ 200+ 200+ 200+ 200 200+ 200 200"),
    post(f"{API}limits/raise", UPS, "limit_raise", scope="workspace", of="hush/hush-web",
         measure="running", extra=1, ends_at="SOON", **WHY),
    post(f"{API}limits/raises/UPLIFT/end", UPS, "limit_raise_end", **WHY),
    get(f"{API}audit", "401 200+ 200+ 200 200 200 200 200 200"),
    get(f"{API}budgets", "401 200+ 200+ 200 200 200+ 200 200 200"),
    get(f"{API}budgets", "401 200+ 200+ 200 200 200+ 200 200 404", tenant="hush"),
    put(f"{API}budgets", SETS, "budget_set", **CEILING, of="hush-web", limit="9", **WHY),
    get(f"{API}budgets/defaults", "401 200 200 200 200 200 200 200 404", tenant="hush"),
    put(f"{API}budgets/defaults", DEFAULTS, "budget_default_set", **CEILING, limit="9", **WHY),
    post(f"{API}budgets/BUDGET/escalate", RAISES, "budget_escalate", extra="1", ends_at="SOON",
         **WHY),
    post(f"{API}escalations/RAISE/end", RAISES, "escalation_end", **WHY),
    get(f"{API}alerts", ANY_MEMBER),
    get(f"{API}alerts", "401 200 200 200 200 200 200 200 404", tenant="hush"),
    get(f"{API}alerts/standing", ANY_MEMBER),
    get(f"{API}webhooks", "401 200+ 200+ 200 200 200 200 200 200"),
    get(f"{API}webhooks", "401 200+ 200+ 200 200 200 200 200 404", tenant="hush"),
    post(f"{API}webhooks", HOOKS, "webhook_add", tenant="hush",
         url="https://new.hush-web.example.org/", **WHY),
    post(f"{API}webhooks/HOOK/rotate", HOOK, "webhook_rotate", **WHY),
    post(f"{API}webhooks/HOOK/remove", HOOK, "webhook_remove", **WHY),
    get(f"{API}webhooks/HOOK/deliveries", "401 200 200 404 404 404 404 404 404"),
    get(f"{API}policies", POLICY),
    post(f"{API}policies", DRAFTS, "policy_draft", body={}, note="a walk"),
    post(f"{API}policies/validate", POLICY, body={}),
    get(f"{API}policies/RETIRED", POLICY),
    post(f"{API}policies/DRAFT/publish", POLICY, "policy_publish", note="a walk"),
    post(f"{API}policies/RETIRED/roll-back", POLICY, "policy_roll_back", note="a walk"),
    post(f"{API}policies/DRAFT/trial", TRIES, "policy_simulate", note="a walk"),
    get(f"{API}trials/TRIAL", "401 200+ 404 404 404 404 404 404 404"),
    get(f"{API}schema/", OPEN),
    get(f"{API}docs/", OPEN),
    get(API, NOTHING),
    get("api/", NOTHING),
    get("", "302 200 200 200 200 302 200 200 200"),
    get("login/", "200 302 302 302 302 302 302 302 302"),
    get("costs/", "302 200+ 200+ 403 403 200+ 403 403 200", by="workspace"),
    get("costs/export/", "302 200+ 200+ 403 403 200+ 403 403 200", by="workspace"),
    get("forecast/", "302 200+ 200+ 200 200 200+ 200 200 200"),
    get("reviews/", "302 200+ 200+ 403 200+ 403 403 200 200"),
    get("metrics", SHARED),
    get("healthz", OPEN),
    get("readyz", "503 503 503 503 503 503 503 503 503"),
    post("logout/", "302 302 302 302 302 302 302 302 302"),
]  # fmt: skip

SOCKETS = {"ws/live/": "4401 open open open open 4403 open open open"}

LEVERS = {
    "budget_default_set": "budget_default_set",
    "budget_escalate": "budget_escalate",
    "ceiling_set": "budget_set",
    "escalation_end": "escalation_end",
    "webhook_add": "webhook_add",
    "webhook_remove": "webhook_remove",
    "webhook_rotate": "webhook_rotate",
    "executor_capacity": "executor_capacity",
    "executor_drain": "executor_drain",
    "executor_enable": "executor_enable",
    "limit_raise": "limit_raise",
    "limit_raise_end": "limit_raise_end",
    "limit_set": "limit_set",
    "jobs_cancel": "job_cancel",
    "jobs_pause": "job_pause",
    "jobs_prioritise": "job_prioritise",
    "jobs_requeue": "job_requeue",
    "jobs_resume": "job_resume",
    "policy_draft": "policy_draft",
    "policy_publish": "policy_publish",
    "policy_roll_back": "policy_roll_back",
    "policy_simulate": "policy_simulate",
    "pool_dial": "pool_dial",
    "tenant_limit": "tenant_limit",
    "tenant_weight": "tenant_weight",
    "workflow_cost": "workflow_cost",
    "workflow_limit": "workflow_limit",
    "workspace_limit": "workspace_limit",
    "workspace_weight": "workspace_weight",
}
"""Levers that an address pulls, with what the audit says of them."""

NO_ADDRESS = {
    "budget_set", "cost_rule_publish", "executor_put", "key_issue", "key_revoke", "member_add",
    "member_remove", "mission_create", "pool_create", "tenant_create", "workflow_put", "workspace_create",
}  # fmt: skip
"""Levers of the console and of the admin, which lets nobody in who is not staff."""
