"""Several cells of one lake as one program: every seed of every cell is a lane, each on its own pool of a stack.

Equal to training the cells one by one up to rounding: a product of stacked matrices may sum in another order.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from utds.data.pool import stack
from utds.errors import TrainingError
from utds.lanes import Lane, advance_together
from utds.training import BURST_SECONDS, Trainer, deliver, signals

End = tuple[Trainer, TrainingError | None]  # a cell that has ended, and why it failed if it did


@dataclass(eq=False)
class _Cell:
    trainer: Trainer
    lanes: tuple[Lane, ...]
    step: int
    timed: int = 0  # steps since it was taken up

    @property
    def left(self) -> int:
        """Steps until something is to be written."""
        return self.trainer.next_stop(self.step) - self.step


def train(trainers: Sequence[Trainer]) -> Iterator[End]:
    """Train all cells to their ends, and tell of each how it ended. One that fails leaves the others going."""
    begun, cells = time.monotonic(), [_Cell(trainer, *trainer.begin()) for trainer in trainers]
    burst = 1
    with signals() as pending:
        while going := [cell for cell in cells if cell.left]:
            group, size = _next(going, burst)
            started = time.monotonic()
            failed = _advance(group, size)
            burst = max(1, round(size * BURST_SECONDS / (time.monotonic() - started)))
            for cell in group:
                if cell in failed:
                    cells.remove(cell)
                    yield cell.trainer, failed[cell]
                else:
                    cell.lanes = cell.trainer.between(cell.lanes, cell.step)
            if pending:
                for cell in cells:
                    cell.trainer.save(cell.lanes, cell.step)
                deliver(pending[0])
    for cell in cells:
        seconds = (time.monotonic() - begun) / len(trainers)  # its part of the time
        cell.trainer.run.finish(cell.step, seconds, cell.timed)
        yield cell.trainer, None


def _next(cells: Sequence[_Cell], burst: int) -> tuple[list[_Cell], int]:
    """The cells that are furthest behind, and how far they go: resumed cells may have been saved at different steps."""
    steps = sorted({cell.step for cell in cells})
    group = [cell for cell in cells if cell.step == steps[0]]
    ahead = [step - steps[0] for step in steps[1:2]]
    return group, min([burst, *ahead, *(cell.left for cell in group)])


def _advance(group: Sequence[_Cell], size: int) -> dict[_Cell, TrainingError]:
    """All cells `size` steps further; those that went wrong on the way."""
    trainers = [cell.trainer for cell in group]
    pools = stack([trainer.pool for trainer in trainers for _ in trainer.seeds])
    keys = tuple(key for trainer in trainers for key in trainer.step_keys)
    lanes = tuple(lane for cell in group for lane in cell.lanes)
    moved = iter(advance_together(trainers[0].algorithm, lanes, pools, keys, size))
    failed = {}
    for cell in group:
        cell.lanes = tuple(next(moved) for _ in cell.lanes)
        cell.step, cell.timed = cell.step + size, cell.timed + size
        try:
            cell.trainer.guard(cell.lanes, cell.step)
        except TrainingError as error:
            failed[cell] = error
    return failed
