"""`make reproduce`: the answers that are known from elsewhere, published and ours side by side."""

import sys

from bench.data import data_folder
from bench.known import every_figure, newer_among_the_first, seven_charts

_ORDER = "ABCFDEG"
_NEWER = 100


def main() -> int:
    """Print the table; return 1 when a figure is out of its tolerance."""
    order, newer = seven_charts(), newer_among_the_first()
    holds = [order == _ORDER, abs(newer - _NEWER) <= 1]
    _print("Answer", "published", "ours", "difference", "within")
    _print("Seven charts, weights 2,1,1: order", _ORDER, order, "", _mark(holds=holds[0]))
    difference = f"{newer - _NEWER:+d}"
    _print(
        "1,000 older, 100 newer: newer of 200", "100", f"{newer}", difference, _mark(holds=holds[1])
    )
    data = data_folder()
    if data is None:
        sys.stdout.write("The traces are not here: TELEMACHUS_DATA names their folder.\n")
        return 1 - all(holds)
    for known in every_figure(data):
        holds.append(known.holds)
        _print(
            known.name,
            f"{known.published:,.1f}",
            f"{known.ours:,.1f}",
            f"{known.difference:+.2%}",
            f"{_mark(holds=known.holds)} ({known.tolerance:.2%})",
        )
    return 1 - all(holds)


def _mark(*, holds: bool) -> str:
    return "yes" if holds else "NO"


def _print(name: str, *cells: str) -> None:
    sys.stdout.write(f"{name:55}" + "".join(f"{cell:>14}" for cell in cells) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
