"""The demo's findings as text for a terminal."""

from collections.abc import Iterator

from telemachus.demo.findings import FIRST_PLACED, Findings

SHOWN = 30


def lines(found: Findings) -> Iterator[str]:
    """Yield the report, line by line."""
    yield f"The first {SHOWN} placements (tenant, turn, units, seconds waited):"
    for start in range(0, min(SHOWN, len(found.placed)), 5):
        yield "  " + "   ".join(
            f"{one.tenant:<8} {one.turn:>3} {one.cost}u {one.waited_s:5.1f}s"
            for one in found.placed[start : min(start + 5, SHOWN)]
        )
    yield ""
    yield "tenant     jobs  done  mean wait   share while all waited   by weight        spend"
    for one in found.tenants:
        yield (
            f"{one.slug:<9} {one.jobs:>5} {one.done:>5} {one.mean_wait_s:>9.1f}s "
            f"{one.share:>23.1%} {one.planned:>11.1%} {one.spend:>12.6f} USD"
        )
    yield ""
    yield f"Jain's index of served units / weight while all waited: {found.jain:.3f}"
    kept = "kept" if found.lawful else "BROKEN"
    yield f"Law 2 of the fair order (bounded difference of shares): {kept}"
    yield (
        f"The smallest tenant's first job was placed {_ordinal(found.smallest_place)} after its "
        f"submission (at most {_ordinal(FIRST_PLACED)} expected)."
    )
    yield _eta_line(found)
    yield ""
    yield f"One text:         {found.text}"
    yield f"Its translation:  {found.translation}"


def _eta_line(found: Findings) -> str:
    if found.eta is None:
        return "ETAs: none came due."
    return (
        f"First ETAs against what came true, {found.eta.count} jobs: mean error "
        f"{found.eta.mean_error_s:.1f} s, bias {found.eta.bias_s:+.1f} s, inside the 80 % range "
        f"{found.eta.hit_rate:.0%}"
    )


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 <= number % 100 <= 20 else ending}"
