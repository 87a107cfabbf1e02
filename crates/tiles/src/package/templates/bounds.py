class Near:
    """A value of the definition in float64 (integers in int64), and a bound on how far the kernel's may be from it.

    Running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.3): inputs are exact, an
    operation passes on the errors of its operands and adds that of its own rounding. The kernel computes elementwise
    functions in f32, rounds what it stores, and combines ranks in the tensor's type in some order.
    """

    def __init__(self, value, bound=None):
        self.value = value
        bound = torch.zeros(value.shape, dtype=torch.float64) if bound is None else bound
        # No statement is no bound.
        self.bound = torch.where(bound.isnan(), float("inf"), bound)
        if COINS is not None and value.is_floating_point():
            # The operation's own error, whole, up or down by the toss of a coin, and used up by that.
            sign = 1.0 - 2.0 * torch.randint(0, 2, value.shape, generator=COINS)
            self.value = value + times(self.bound.expand(value.shape), sign)
            self.bound = torch.zeros(value.shape, dtype=torch.float64)

    def __neg__(self):
        return Near(-self.value, self.bound)

    def __abs__(self):
        return Near(self.value.abs(), self.bound)

    def __add__(self, other):
        return rounded(self.value + other.value, self.bound + other.bound)

    def __sub__(self, other):
        return rounded(self.value - other.value, self.bound + other.bound)

    def __mul__(self, other):
        a, b = self.value.abs(), other.value.abs()
        passed = times(a, other.bound) + times(self.bound, b) + times(self.bound, other.bound)
        return rounded(self.value * other.value, passed)

    def __truediv__(self, other):
        value, b = self.value / other.value, other.value.abs()
        passed = (self.bound + times(value.abs(), other.bound)) / (b - other.bound)
        # The divisor may be zero, or have another sign.
        return rounded(value, torch.where(other.bound >= b, float("inf"), passed))

    def __pow__(self, n):
        out = self if n else Near(torch.ones_like(self.value))
        for _ in range(n - 1):
            out = out * self
        return out


# Tossed for every element of every operation where what disturbed evaluations show is asked for.
COINS = None


# Unit roundoff, smallest positive number, and the least number that is rounded to infinity.
FLOATS = {
@FLOATS@}


# Of the kernel's functions: units in the last place, an absolute error, and the largest argument they are for.
ERRORS = @ERRORS@


# Bounds are widened by this factor: what a function of the core may be off beyond what is known of it, and float64 here.
SAFETY = 2.0


LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(1 << 15), (1 << 15) - 1), "i32": (-(1 << 31), (1 << 31) - 1),
          "i64": (-(1 << 63), (1 << 63) - 1)}


COMPARED = {"==": torch.eq, "!=": torch.ne, "<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge}


def times(a, b):
    """A product of bounds and sizes, in which zero times anything is zero."""
    return torch.where((a == 0) | (b == 0), 0.0, a * b)


def rounded(value, bound, dtype="f32", ulps=0.5):
    """The result of an operation, off by `bound` already, and by `ulps` more for being stored in a type."""
    if not value.is_floating_point():
        return Near(value, bound)
    unit, least, limit = FLOATS[dtype]
    size = value.abs()
    # A result of exact operands that the type holds; an infinity or NaN for certain.
    sure = (bound == 0) & (value.to(STORED[dtype]).to(torch.float64) == value) & (ulps <= 0.5)
    sure |= ~value.isfinite() & bound.isfinite()
    bound = torch.where(sure, 0.0, bound + (2 * ulps * unit * (size + bound)).clamp(min=ulps * least))
    over = size - bound >= limit
    bound = torch.where(over, 0.0, torch.where((size + bound >= limit) & ~sure, float("inf"), bound))
    return Near(torch.where(over, torch.sign(value) * float("inf"), value), bound)


def stored(x, dtype):
    """Rounded to a float type, or wrapped to an integer type, as a value of the program is."""
    if dtype in STORED:
        return rounded(x.value.to(torch.float64), x.bound, dtype)
    low, high = LIMITS[dtype]
    wraps = (x.bound > 0) & ((x.value - x.bound < low) | (x.value + x.bound > high))
    value = x.value if dtype == "i64" else (x.value - low) % (high - low + 1) + low
    return Near(value, torch.where(wraps, float("inf"), x.bound))


def number(value, dtype):
    """A number in an expression: rounded once to the type it meets."""
    if dtype not in STORED:
        return Near(torch.tensor(int(value)))
    return Near(torch.tensor(value, dtype=torch.float64).to(STORED[dtype]).to(torch.float64))


def integer(x, dtype):
    """A cast to an integer type: nearest even, NaN is 0, out of range the nearest limit."""
    if not x.value.is_floating_point():
        return stored(x, dtype)
    low, high = LIMITS[dtype]

    def image(value):
        whole = torch.nan_to_num(value, nan=0.0).round()
        inside = whole.clamp(float(low), float(high)).to(torch.int64)
        return torch.where(whole >= float(high), high, torch.where(whole <= float(low), low, inside))

    at = image(x.value)
    ends = [(image(end).to(torch.float64) - at.to(torch.float64)).abs() for end in (x.value - x.bound, x.value + x.bound)]
    return Near(at, torch.where(x.bound.isinf(), float("inf"), torch.maximum(*ends)))


def quotient(a, b):
    """Of integers, toward zero; nothing is said about operands that may be off."""
    value = torch.div(a.value, b.value, rounding_mode="trunc")
    return Near(value, torch.where(a.bound + b.bound == 0, 0.0, float("inf")))


def combined(x, op, dtype):
    """The combination of the slices along the leading axis, rounded to the type after each, in any order."""
    value = {"sum": torch.sum, "prod": torch.prod, "min": torch.amin, "max": torch.amax}[op](x.value, dim=0)
    if op in ("min", "max"):
        return Near(value, torch.amax(x.bound, dim=0))
    if dtype not in STORED:
        passed = x.bound.sum(dim=0)
        return stored(Near(value, passed if op == "sum" else torch.where(passed == 0, 0.0, float("inf"))), dtype)
    unit, least, limit = FLOATS[dtype]
    roundings = x.value.shape[0] - 1
    gamma = roundings * unit / (1 - roundings * unit)
    size = x.value.abs() + x.bound
    if op == "sum":
        size, passed = size.sum(dim=0), x.bound.sum(dim=0)
        # Sums of multiples of 1/32, as inputs are, may fit the type whatever their order.
        fits = ((x.value * 32).frac() == 0).all(dim=0) & (passed == 0) & (size * 32 * unit <= 1)
        own = torch.where(fits, 0.0, gamma * size)
    else:
        passed = size.prod(dim=0) - value.abs()
        size = size.clamp(min=1).prod(dim=0)
        own = torch.where((passed == 0) & (value == 0), 0.0, (gamma + roundings * least) * size)
    return Near(value, torch.where(size + own >= limit, float("inf"), passed + own))


def matmul(a, b, dtype, shared=False):
    """Products added up in f32, in any order; each rank's part is stored in the type, and parts are added in it."""
    terms = a.value.shape[-1]
    size_a, size_b = a.value.abs(), b.value.abs()
    passed = size_a @ b.bound + a.bound @ size_b + a.bound @ b.bound
    size = (size_a + a.bound) @ (size_b + b.bound)
    if COINS is not None:
        # Of the roundings that a sum passes, so many fall on one side; the product of the norms is not less than the sum.
        terms = min(terms, 3 * terms**0.5)
        size = (a.value**2).sum(dim=-1, keepdim=True).sqrt() * (b.value**2).sum(dim=-2, keepdim=True).sqrt()
    unit, least, limit = FLOATS["f32"]
    bound = passed + terms * unit / (1 - terms * unit) * size + terms * least / 2
    # Whole numbers that are small enough are exact in any order.
    whole = (a.value.frac() == 0).all() & (b.value.frac() == 0).all()
    bound = torch.where((passed == 0) & whole & (size * unit <= 1), 0.0, torch.where(size >= limit, float("inf"), bound))
    value = a.value @ b.value
    if shared and dtype != "f32":
        unit, least, limit = FLOATS[dtype]
        return Near(value, bound + PARTS * unit / (1 - PARTS * unit) * (size + bound) + PARTS * least / 2)
    return rounded(value, bound, dtype) if dtype != "f32" else Near(value, bound)


def grouped(x, w, matrices, dtype):
    """Each row times its matrix."""
    rows = moved(lambda t: t[0].unsqueeze(1), x)
    each = matmul(rows, moved(lambda t: t[0][list(matrices)], w), dtype)
    return moved(lambda t: t[0].squeeze(1), each)


def along(x, op, dim, dtype, keep=False):
    """A dimension combined, in f32 and any order, and stored in the type."""
    if op in ("min", "max"):
        pick = torch.amin if op == "min" else torch.amax
        value, low, high = (pick(v, dim=dim, keepdim=keep) for v in (x.value, x.value - x.bound, x.value + x.bound))
        return Near(value, torch.maximum(high - value, value - low))
    terms = x.value.shape[dim]
    value = x.value.sum(dim=dim, keepdim=keep)
    if dtype not in STORED:
        return stored(Near(value, x.bound.sum(dim=dim, keepdim=keep)), dtype)
    unit = FLOATS["f32"][0]
    size = (x.value.abs() + x.bound).sum(dim=dim, keepdim=keep)
    out = Near(value, x.bound.sum(dim=dim, keepdim=keep) + (terms - 1) * unit / (1 - (terms - 1) * unit) * size)
    if op == "mean":
        out = out / number(float(terms), "f32")
    return rounded(out.value, out.bound, dtype) if dtype != "f32" else out


# Ranks that may share a sum.
PARTS = 1


def raised(x, dims):
    """Slices with so many dimensions each: the first ones have one element."""
    shape = (x.value.shape[0], *[1] * (dims + 1 - x.value.dim()), *x.value.shape[1:])
    return Near(x.value.reshape(shape), x.bound.reshape(shape))


def moved(f, *operands):
    """Elements moved about: bounds go with their values."""
    return Near(f([x.value for x in operands]), f([x.bound for x in operands]))


def padded(x, dim, before, after, value):
    """With a number before and after, along a dimension."""

    def around(t, number):
        ends = [torch.full((*t.shape[:dim], n, *t.shape[dim + 1 :]), number, dtype=t.dtype) for n in (before, after)]
        return torch.cat((ends[0], t, ends[1]), dim=dim)

    return Near(around(x.value, value.value.item()), around(x.bound, 0.0))


def spread(x, *others):
    """In the shape that it has with others."""
    shape = torch.broadcast_shapes(x.value.shape, *(o.value.shape for o in others))
    return Near(x.value.expand(shape), x.bound.expand(shape))


def select(a, symbol, b, x, y):
    """x where the comparison holds, else y; where its operands may compare in another way, either."""
    holds = COMPARED[symbol](a.value, b.value)
    slack = a.bound + b.bound
    either = (slack > 0) & ((a.value - b.value).abs() <= slack)
    value, other = torch.where(holds, x.value, y.value), torch.where(holds, y.value, x.value)
    own, others = torch.where(holds, x.bound, y.bound), torch.where(holds, y.bound, x.bound)
    return Near(value, torch.where(either, torch.maximum(own, (other - value).abs() + others), own))


def nearer(pick, a, b):
    """The smaller or larger: as far off as the side taken, or as either where both may be."""
    value, slack = pick(a.value, b.value), a.bound + b.bound
    either = ~((a.value - b.value).abs() > slack)
    one = torch.where(value == a.value, a.bound, b.bound)
    return Near(value, torch.where(either, torch.maximum(a.bound, b.bound), one))


def minimum(a, b):
    return nearer(torch.minimum, a, b)


def maximum(a, b):
    return nearer(torch.maximum, a, b)


def function(name, x, passed):
    """A function of the kernel: its own error on top of what its operand's makes of it."""
    ulps, error, within = ERRORS[name]
    inside = x.value.abs() + x.bound <= within
    return rounded(getattr(torch, name)(x.value), torch.where(inside, passed + error, float("inf")), ulps=ulps)


@FUNCTIONS@


def tightened(feeds, results):
    """Bounds that say next to nothing, replaced by what disturbed evaluations show (Monte Carlo arithmetic: Parker, UCLA
    CSD-970002, 1997): errors arrive correlated where they share a source, and cancelled where they cancel. A bound becomes
    8 times the largest of the element's farthest and the root mean squares of its row's and its tensor's."""
    global COINS

    def loose(r):
        return r.value.is_floating_point() and r.value.numel() > 0 and (r.bound > 2.0**-10 * r.value.abs().max()).any()

    if not any(loose(r) for r in results):
        return results
    probes = []
    for seed in (1, 2):
        COINS = torch.Generator().manual_seed(seed)
        probes.append([r.value for r in program(*(Near(x) for x in feeds))])
    COINS = None
    out = []
    for at, r in enumerate(results):
        if loose(r):
            seen = torch.stack([p[at] - r.value for p in probes])
            squares = seen.nan_to_num(0.0, 0.0, 0.0) ** 2
            row = squares.mean(dim=(0, -1), keepdim=True)[0].sqrt() if r.value.dim() else squares.mean().sqrt()
            far = seen.abs().nan_to_num(float("inf")).amax(dim=0)
            found = 8 * torch.maximum(torch.maximum(far, row), squares.mean().sqrt())
            r = Near(r.value, torch.minimum(r.bound, found))
        out.append(r)
    return out


def evaluated(feeds, nranks):
    """The results, and how far from them the kernel's may be; not at all where integers stay exact."""
    global PARTS
    PARTS = nranks
    results = tightened(feeds, program(*(Near(x) for x in feeds)))
    if MODULI[nranks] is not None:
        return tuple(r.value for r in results), tuple(torch.zeros(()).expand(r.value.shape) for r in results)
    return tuple(r.value for r in results), tuple(SAFETY * r.bound for r in results)
