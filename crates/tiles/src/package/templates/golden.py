"""Inputs and golden values of @PROGRAM@, from its definition alone.

The program as written, on one device: tensors are whole, placement is erased, a collective changes nothing, and an
input that is partial over ranks has a leading axis and stands for the combination of its slices. Floats are computed
in float64, integers in int64. Neither the schedule nor the kernel's layout is used here; only torch is, and numpy where
there is a file of data.
"""

import os
from typing import NamedTuple

import torch


class Type(NamedTuple):
    """A global tensor and its placement."""

    name: str
    dtype: str
    cuts: tuple  # of each dimension: None, or (rule or lengths, axes, outermost first)
    partial: tuple | None = None  # (combiner, axes): fed with a leading axis, one slice a contributor
    only: tuple | None = None  # (coordinate, axis): nobody else holds it


INPUTS = (
@INPUTS@)
OUTPUTS = (
@OUTPUTS@)
# Largest exact inputs are one less: for each rank count, one number an input; None where integers do not stay exact.
MODULI = @MODULI@
@GROWTH@STORED = {@STORED@}


def axes(nranks):
    """Sizes of the mesh axes, slowest first; a rank's coordinates are its digits."""
    return @AXES@


def shapes(nranks, count):
    """Global shapes of inputs and results, without the leading axis of partial ones."""
    return @INPUT_SHAPES@, @OUTPUT_SHAPES@


@ROWS@def program(@PARAMS@):
    """The definition, on whole tensors."""
@BODY@


@FORM@

# --- numbers ---


@NUMBERS@

def off(dtype, got, expected, bound):
    """How far each element is off, as a part of what it may be; above 1 it is wrong."""
    got = got.to(expected.dtype)
    same = (got == expected) | (got.isnan() & expected.isnan() if dtype in STORED else False)
    part = (got - expected).abs().to(torch.float64) / bound
    # What is different and no number of times the bound is wrong, unless there is no bound.
    part = torch.where(bound == float("inf"), 0.0, part.nan_to_num(nan=float("inf"), posinf=float("inf")))
    return torch.where(same, 0.0, part)


# --- inputs by rule ---


def mix32(i, rank, launch):
    """Bits of (i, rank, launch) mixed to 32, as `kbc` does it; i is a tensor of int64."""
    word = 0xFFFFFFFF

    def turned(x, by):
        return ((x << by) | (x >> (32 - by))) & word

    salt = turned((rank + 1) * 0x85EBCA77 & word, 13) ^ turned((launch + 1) * 0xC2B2AE3D & word, 26)
    h = (i * 0x9E3779B1 & word) ^ salt
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & word
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & word
    return h ^ (h >> 16)


class Inexact(Exception):
    """No integers stay exact at a size, so nothing can be compared."""


def moduli_at(nranks, count):
    """The moduli of exact inputs at a count."""
@SMALLER@

def exact(nranks, count, launch, seed):
    """Element i of what contributor r gives to input k is mix32(i + k * 0x01000193, r, launch + seed) mod m. Where integers
    do not stay exact: multiples of 1/32 from -2 to 2, which every float type holds."""
    moduli, out = moduli_at(nranks, count), []
    for k, (ty, shape) in enumerate(zip(INPUTS, shapes(nranks, count)[0])):
        slices = contributors(ty, nranks)
@BELOW@        i = (torch.arange(elements(shape)) + k * 0x01000193) & 0xFFFFFFFF
        raw = torch.stack([mix32(i, r, (launch + seed) & 0xFFFFFFFF) for r in range(slices or 1)])
        if moduli is not None or ty.dtype not in STORED:
            values = raw % @LEAST@
        else:
            values = (raw % 129 - 64) / 32
        out.append(values.reshape(((slices,) if slices else ()) + tuple(shape)))
    return out


def own(file, nranks):
    """The program's own inputs, what its definition makes of them, and what the file says each result may be off."""
    import numpy

    with numpy.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), file)) as arrays:
        feeds = [torch.from_numpy(arrays[f"input_{i}"]) for i in range(len(INPUTS))]
        bounds = [torch.from_numpy(arrays[f"bound_{i}"]).to(torch.float64) for i in range(len(OUTPUTS))]
    wide = [f.to(torch.float64 if ty.dtype in STORED else torch.int64) for f, ty in zip(feeds, INPUTS)]
    return wide, evaluated(wide, nranks)[0], bounds, "the program's own data"


def launch(nranks, count, number, seed, data, file=None):
    """Global inputs and results of a launch, by how much each result may be off, and where the inputs come from."""
    if data == "own":
        return own(file, nranks)
    if data == "forms" and FORM is not None:
        feed, result = form(nranks, count, number)
        if result.numel() == 0 or int(result.max()) < 1 << 24:
            feeds, closed, origin = [feed], result, FORM
        else:
            feeds, closed, origin = exact(nranks, count, number, seed), None, "exact integers (the form leaves 2^24)"
    else:
        feeds, closed = exact(nranks, count, number, seed), None
        origin = "exact integers" if MODULI[nranks] is not None else "multiples of 1/32"
    wide = [f.to(torch.float64 if ty.dtype in STORED else torch.int64) for f, ty in zip(feeds, INPUTS)]
    results, bounds = evaluated(wide, nranks)
    # The definition and the closed form are two ways to the same numbers.
    if closed is not None and not torch.equal(results[0].to(torch.int64), closed):
        raise AssertionError("the closed form is not what the definition gives")
    return wide, results, bounds, origin


# --- placement ---


def elements(shape):
    """Product of the sizes."""
    n = 1
    for s in shape:
        n *= s
    return n


def coordinates(nranks, rank):
    """Coordinates of a rank by axis."""
    at = {}
    for name, size in reversed(axes(nranks).items()):
        rank, at[name] = divmod(rank, size)
    return at


def contributors(ty, nranks):
    """Slices that a partial input is fed with; 0 for others."""
    return elements(axes(nranks)[a] for a in ty.partial[1]) if ty.partial else 0


def boundary(rule, n, i, k):
    """Where part i of n elements in k parts begins: at ceil(n * i / k), in parts of ceil(n / k), or by their lengths."""
    if isinstance(rule, tuple):
        return sum(rule[:i])
    return -(-n * i // k) if rule == "even" else min(-(-n // k) * i, n)


def box(ty, shape, nranks, rank):
    """The part of a global tensor that a rank holds, as slices."""
    at, sizes = coordinates(nranks, rank), axes(nranks)
    if ty.only and at[ty.only[1]] != ty.only[0]:
        return tuple(slice(0, 0) for _ in shape)
    out = []
    for n, cut in zip(shape, ty.cuts):
        low = 0
        for axis in cut[1] if cut else ():
            first, last = (boundary(cut[0], n, at[axis] + d, sizes[axis]) for d in (0, 1))
            low, n = low + first, last - first
        out.append(slice(low, low + n))
    return tuple(out)


def part(ty, whole, nranks, rank):
    """What a rank holds of a global tensor: a contributor's slice if it is partial, then its box."""
    if ty.partial:
        at, index = coordinates(nranks, rank), 0
        for axis in ty.partial[1]:
            index = index * axes(nranks)[axis] + at[axis]
        whole = whole[index]
    return whole[box(ty, whole.shape, nranks, rank)]
