"""The rows of scheduling, one noun a file."""

from scheduling.models.attempt import Attempt
from scheduling.models.circuit import Circuit
from scheduling.models.decision import Decision
from scheduling.models.dependency import JobDependency
from scheduling.models.event import JobEvent
from scheduling.models.executor import Executor
from scheduling.models.governor import GovernorLease, Worker
from scheduling.models.idempotency import IdempotencyRecord
from scheduling.models.job import Job
from scheduling.models.limit import Limit
from scheduling.models.limit_raise import LimitRaise
from scheduling.models.memory import ServiceMemory
from scheduling.models.policy import PolicyVersion
from scheduling.models.pool import Pool
from scheduling.models.trial import PolicyTrial
from scheduling.models.workflow import Mission, Workflow

__all__ = [
    "Attempt",
    "Circuit",
    "Decision",
    "Executor",
    "GovernorLease",
    "IdempotencyRecord",
    "Job",
    "JobDependency",
    "JobEvent",
    "Limit",
    "LimitRaise",
    "Mission",
    "PolicyTrial",
    "PolicyVersion",
    "Pool",
    "ServiceMemory",
    "Worker",
    "Workflow",
]
