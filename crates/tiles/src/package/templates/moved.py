

# Collectives that a contract defines, by rank count: blocks of the operand and of the result; for each block of the
# result that the contract names, the blocks that it holds, and how they are combined.
MOVED = {@TABLES@}


def rearranged(x, dim, table):
    """The blocks of the result along a dimension; a block that the contract does not name is 0."""
    parts, ends, named = table
    size = x.shape[dim] // parts
    blocks = [torch.zeros_like(x.narrow(dim, 0, size))] * ends
    for at, sources, op in named:
        found = [x.narrow(dim, s * size, size) for s in sources]
        blocks[at] = found[-1] if op is None else combined(torch.stack(found), op)
    return torch.cat(blocks, dim=dim)
