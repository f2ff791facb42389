"""The columns of exact numbers."""

from decimal import Decimal

from django.db import models


def money(**options: object) -> "models.DecimalField[Decimal | int, Decimal]":
    """Return a numeric column fit for prices of single tokens (12 decimal places)."""
    return models.DecimalField(max_digits=24, decimal_places=12, **options)  # type: ignore[arg-type]


def measure(**options: object) -> "models.DecimalField[Decimal | int, Decimal]":
    """Return a numeric column fit for any dimension, from fractions of a cent to byte-hours."""
    return models.DecimalField(max_digits=38, decimal_places=12, **options)  # type: ignore[arg-type]
