"""The paper's statements on linear MDPs, each an experiment: `run(rng, size, advance)`, then `facts` and `PICTURES`."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from utds import figures
from utds.errors import ConfigError

Advance = Callable[[float], None]  # told what share of the experiment has just been done; the shares sum to 1


def quietly(share: float) -> None:
    """The `Advance` of a caller who shows no progress."""


@dataclass(frozen=True)
class Fact:
    """One measured figure. `holds` is None where nothing is required of it."""

    what: str
    value: str
    required: str = ""
    holds: bool | None = None


def at_most(what: str, value: float, limit: float) -> Fact:
    """A figure that must not exceed the limit."""
    return Fact(what, f"{value:.1e}", f"≤ {limit:g}", value <= limit)


@dataclass(frozen=True, eq=False)
class Picture:
    name: str  # file name without suffix
    caption: str
    figure: "figures.Figure"


@dataclass(frozen=True, eq=False)
class Report:
    """One section of the page."""

    title: str
    claim: str  # HTML
    needs: str  # HTML: the conditions without which the inequality says nothing, and where the printed proof slips
    code: tuple[str, ...]  # the functions that compute it
    facts: tuple[Fact, ...]
    pictures: tuple[Picture, ...]

    def to_json(self) -> dict[str, Any]:
        """What was measured; the statement holds if all that is required of it does."""
        facts = [asdict(fact) | {"holds": None if fact.holds is None else bool(fact.holds)} for fact in self.facts]
        return {"title": self.title, "holds": all(fact["holds"] is not False for fact in facts), "facts": facts}


Draw = Callable[[Any, "figures.Axes"], str]  # draws a result on axes; returns the caption


def picture(
    name: str, xlabel: str, ylabel: str, height: float = 3.0, columns: int = 2
) -> Callable[[Draw], Callable[[Any], Picture]]:
    """Make a function that draws one that gives the picture, its legend of so many columns below; 0: no legend."""

    def decorate(draw: Draw) -> Callable[[Any], Picture]:
        def drawn(result: Any) -> Picture:
            with figures.panel(xlabel, ylabel, height) as (figure, axes):
                caption = draw(result, axes)
                if columns:
                    figures.legend(figure, columns)
            return Picture(name, caption, figure)

        return drawn

    return decorate


def scaled(count: int, size: float, least: int = 2) -> int:
    """`count` repetitions at size 1, never fewer than `least`."""
    if not 0 < size <= 100:
        raise ConfigError(f"size is {size}; it multiplies the number of datasets and problems: give 0 < size ≤ 100")
    return max(least, round(count * size))
