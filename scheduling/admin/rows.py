"""The rows of scheduling in Django's admin; what may be changed here is audited."""

from django.contrib import admin

from scheduling.models import (
    Attempt,
    Circuit,
    Decision,
    Executor,
    Job,
    Limit,
    LimitRaise,
    Mission,
    Pool,
    Workflow,
)
from tenants.admin import Audited, ReadOnly


@admin.register(Job)
class JobAdmin(ReadOnly):
    """Jobs, newest first."""

    list_display = ["id", "tenant", "workflow", "kind", "job_class", "state", "submitted_at"]
    list_filter = ["state", "kind", "job_class"]
    list_select_related = ["tenant", "workflow"]
    show_full_result_count = False


@admin.register(Attempt)
class AttemptAdmin(ReadOnly):
    """Attempts of all jobs."""

    list_display = ["id", "job_id", "fence", "executor", "state", "dispatched_at", "ended_at"]
    list_filter = ["state", "executor"]
    list_select_related = ["executor"]
    show_full_result_count = False


@admin.register(Decision)
class DecisionAdmin(ReadOnly):
    """Decisions of admission."""

    list_display = ["id", "job_id", "verdict", "reason", "policy", "control", "at"]
    list_filter = ["verdict", "reason"]
    show_full_result_count = False


@admin.register(Pool)
class PoolAdmin(Audited):
    """Pools."""

    list_display = ["slug", "name", "budget", "reserve"]


@admin.register(Executor)
class ExecutorAdmin(Audited):
    """Executors may be added and edited here; the governor follows within a second."""

    list_display = ["slug", "kind", "pool", "slots", "enabled", "health"]
    readonly_fields = ["health"]


@admin.register(Circuit)
class CircuitAdmin(ReadOnly):
    """Circuits of what has failed; calls open and close them."""

    list_display = ["executor", "model", "state", "failures", "until"]
    list_filter = ["state"]


@admin.register(Workflow)
class WorkflowAdmin(Audited):
    """Workflows of tenants."""

    list_display = ["slug", "tenant", "pool", "cost", "expected_s", "job_class"]
    list_filter = ["tenant"]


@admin.register(Mission)
class MissionAdmin(Audited):
    """Missions of tenants."""

    list_display = ["slug", "tenant", "name"]
    list_filter = ["tenant"]


@admin.register(Limit)
class LimitAdmin(ReadOnly):
    """Limits and rates; they are set over the API."""

    list_display = ["scope", "scope_id", "measure", "value"]
    list_filter = ["scope", "measure"]


@admin.register(LimitRaise)
class LimitRaiseAdmin(ReadOnly):
    """Escalations of limits, past and present."""

    list_display = ["scope", "scope_id", "measure", "extra", "owner", "starts_at", "ends_at"]
    list_filter = ["scope", "measure"]
