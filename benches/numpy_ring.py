"""Ring all-reduce of p ranks in numpy, the schedule of specs/lib/ring.kb, round by round on all ranks.

usage: numpy_ring.py f16|bf16 RANKS ELEMENTS REPEATS; prints seconds of processor time, one repeat a line.

numpy has no bfloat16: it is uint16, widened to float32, added, and rounded to nearest even.
"""

import sys
import time

import numpy as np


def add_bf16(a, b):
    wide = (a.astype(np.uint32) << 16).view(np.float32) + (b.astype(np.uint32) << 16).view(np.float32)
    bits = wide.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def ring(v, cuts, add):
    p = len(v)
    part = lambda i: slice(cuts[i % p], cuts[i % p + 1])
    for s in range(1, p):
        sent = [v[r][part(r - s)].copy() for r in range(p)]
        for r in range(p):
            at = part(r - s - 1)
            v[r][at] = add(v[r][at], sent[(r - 1) % p])
    for s in range(0, p - 1):
        sent = [v[r][part(r - s)].copy() for r in range(p)]
        for r in range(p):
            v[r][part(r - s - 1)] = sent[(r - 1) % p]


def main():
    kind, p, n, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    cuts = [-(-n * i // p) for i in range(p + 1)]
    small = [(np.arange(n) % 61 + r).astype(np.float16) for r in range(p)]
    if kind == "bf16":
        small = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in small]
    add = np.add if kind == "f16" else add_bf16
    for _ in range(repeats):
        v = [x.copy() for x in small]
        begin = time.process_time()
        ring(v, cuts, add)
        print(time.process_time() - begin)


main()
