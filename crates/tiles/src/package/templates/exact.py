def stored(x, dtype):
    """Rounded to a float type, or wrapped to an integer type, as a value of the program is."""
    if dtype in STORED:
        return x.to(STORED[dtype]).to(torch.float64)
    bits = {"i8": 8, "u8": 8, "i16": 16, "i32": 32}.get(dtype)
    if bits is None:
        return x
    low = x & ((1 << bits) - 1)
    return low if dtype == "u8" else low - ((low >> (bits - 1)) << bits)


def number(value, dtype):
    """A number in an expression: rounded once to the type it meets."""
    return stored(torch.tensor(value, dtype=torch.float64), dtype) if dtype in STORED else torch.tensor(int(value))


def integer(x, dtype):
    """A cast to an integer type: nearest even, NaN is 0, out of range the nearest limit."""
    low, high = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(1 << 15), (1 << 15) - 1),
                 "i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1)}[dtype]
    if not x.is_floating_point():
        return stored(x, dtype)
    whole = torch.nan_to_num(x, nan=0.0).round()
    inside = whole.clamp(float(low), float(high))
    return torch.where(whole >= float(high), high, torch.where(whole <= float(low), low, inside.to(torch.int64)))


def combined(x, op):
    """The combination of the slices along the leading axis."""
    return {"sum": torch.sum, "prod": torch.prod, "min": torch.amin, "max": torch.amax}[op](x, dim=0)


def evaluated(feeds, nranks):
    """The results, and how far from them the kernel's may be: not at all, so bits are compared."""
@RANKS@    results = program(*feeds)
    return results, tuple(torch.zeros(()).expand(r.shape) for r in results)


def padded(x, dim, before, after, value):
    """With a number before and after, along a dimension."""
    ends = [torch.full((*x.shape[:dim], n, *x.shape[dim + 1 :]), value.item(), dtype=x.dtype) for n in (before, after)]
    return torch.cat((ends[0], x, ends[1]), dim=dim)
