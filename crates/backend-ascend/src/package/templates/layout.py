"""What @KERNEL@ takes, how large everything is, and what it was checked for. Written by kbc; do not edit.

Sizes are functions of the number of ranks and the count, the same on every rank unless `rank` is asked for.
"""

from typing import NamedTuple

KERNEL = "@KERNEL@"
# Rank counts and counts for which the kernel was checked; others are refused.
RANKS = @RANKS@
COUNT = @COUNT@  # name of the count; None: all sizes are fixed
LARGEST_COUNT = @LARGEST_COUNT@
DEFAULT_COUNT = @DEFAULT_COUNT@
ROOT = @ROOT@  # the root of a launch unless another one is given; None: a launch takes no root
OWN = @OWN@  # the file of the program's own data; None: inputs are made by rule
# What is refused, and why.
PLATFORMS = {
@PLATFORMS@}
# Vector cores that a rank has.
CORES = {
@CORES@}
RUNTIMES = {
@RUNTIMES@}
# Element 0 of the status line is call + 1 after a good launch, or one of these; element 1 is the detail.
STATUS = {
@STATUS@}


class Tensor(NamedTuple):
    name: str
    dtype: str
    direction: str
    role: str  # input, output, tables, memory, window, status
    index: int | None  # of the program's input or result


class Row(NamedTuple):
    name: str
    at: int  # byte
    size: int  # bytes
    what: str


class Kernel(NamedTuple):
    name: str
    core: str  # aiv, aic
    blocks: int  # cores of a rank that run it together
    directions: tuple  # of its tensors


class Task(NamedTuple):
    name: str
    kernel: int  # its number in KERNELS


KERNELS = (
@KERNELS@)
# What is submitted for a launch, in order; each block of a task has a line of the status.
TASKS = (
@TASKS@)
# Arguments in order: tensors, then scalars.
TENSORS = (
@TENSORS@)
SCALARS = @SCALARS@
# The tensor of constant tables of a rank count: where each table begins, then the tables.
TABLES = {
@TABLES@}


def place(rank, nranks, root=None):
    """The rank that has the part of this one where ROOT is the root, in a launch with this root. Only data of the root
    and results on it differ, so a launch with another root is that launch with its ranks renamed."""
    return rank if ROOT is None or root is None else (rank + ROOT - root) % nranks


def elements(nranks, count, rank):
    """Elements on a rank of each input and output, in the order of TENSORS, of which they are the first. In a launch with
    a root: on the `place` of the rank."""
    return @LENGTHS@


def window(nranks, count):
    """Rows of every rank's window; rows that are never in use together may overlap."""
    return [
@ROWS@    ]


def window_bytes(nranks, count):
    """Bytes of every rank's window, a multiple of 64."""
    return @BYTES@


def memory(nranks, count):
    """Rows of every rank's own memory, which hold intermediate values; rows that are never in use together may overlap."""
    return [
@OWN_ROWS@    ]


def memory_bytes(nranks, count):
    """Bytes of every rank's own memory, a multiple of 64."""
    return @MEMORY@


def launches(nranks, count):
    """Launches a domain serves before a 32-bit counter may leave its range."""
    return @LAUNCHES@


def moved(nranks, count):
    """S of the conventions of algbw and busbw, in bytes, and busbw / algbw; None where the program is more than one
    collective."""
    return @MOVED@
