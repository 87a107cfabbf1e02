// Who touched which bytes of one memory: the last write, and the reads after it that nothing is ordered after.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "standin/model.hpp"

namespace standin {

// For every agent (rank, core, pipe), how many of its instructions are known to be complete, with all they wrote visible; and
// behind these once more how many are known to be over. What is over cannot be undone, so whoever has heard of it from
// anybody may write there; who reads what was written must have heard of it from its writer.
using Clock = std::vector<uint32_t>;

inline int agent(int rank, int core, int lane) { return (rank * core_count() + core) * Lanes + lane; }
// So many instructions of an agent are complete.
inline void complete(Clock &clock, int agent, uint32_t count) {
    clock[static_cast<size_t>(agent)] = clock[clock.size() / 2 + static_cast<size_t>(agent)] = count;
}
// What is over according to one clock is over according to the other.
inline void join_over(Clock &into, const Clock &from) {
    for (size_t i = into.size() / 2; i < into.size(); ++i) {
        if (from[i] > into[i]) into[i] = from[i];
    }
}
inline void join(Clock &into, const Clock &from) {
    for (size_t i = 0; i < into.size(); ++i) {
        if (from[i] > into[i]) into[i] = from[i];
    }
}

struct Cell {
    Op write{};
    bool written = false;
    bool defined = false;
    std::vector<Op> reads;
};

class Shadow {
public:
    explicit Shadow(bool defined = false) { cells_[0].defined = defined; }

    // The access of [from, to) that `op` is not ordered after, or null; notes the access if there is none.
    // gaps: counts undefined bytes; first_gap: the first of them.
    const Op *read(const Op &op, const Clock &known, uint64_t from, uint64_t to, uint64_t &gaps, uint64_t &first_gap) {
        auto it = split(from);
        split(to);
        for (; it != cells_.end() && it->first < to; ++it) {
            Cell &cell = it->second;
            if (cell.written && !after(op, known, cell.write)) return &cell.write;
            if (!cell.defined) {
                if (gaps == 0) first_gap = it->first;
                gaps += std::min(end(it), to) - it->first;
            }
            size_t kept = 0;
            for (const Op &r : cell.reads) {
                if (!after(op, known, r)) cell.reads[kept++] = r;
            }
            cell.reads.resize(kept);
            cell.reads.push_back(op);
        }
        return nullptr;
    }
    const Op *write(const Op &op, const Clock &known, uint64_t from, uint64_t to) {
        auto it = split(from);
        const auto stop = split(to);
        for (auto c = it; c != stop; ++c) {
            const size_t over = known.size() / 2;
            if (c->second.written && !after(op, known, c->second.write, over)) return &c->second.write;
            for (const Op &r : c->second.reads) {
                if (!after(op, known, r, over)) return &r;
            }
        }
        Cell cell;
        cell.write = op;
        cell.written = cell.defined = true;
        cells_.erase(it, stop);
        cells_.emplace(from, std::move(cell));
        return nullptr;
    }
    void define(uint64_t from, uint64_t to, bool defined) {
        auto it = split(from);
        split(to);
        for (; it != cells_.end() && it->first < to; ++it) it->second.defined = defined;
    }
    bool defined(uint64_t from, uint64_t to) const {
        auto it = std::prev(cells_.upper_bound(from));
        for (; it != cells_.end() && it->first < to; ++it) {
            if (!it->second.defined) return false;
        }
        return true;
    }

private:
    using Cells = std::map<uint64_t, Cell>;  // from the key to the next one
    static bool after(const Op &op, const Clock &known, const Op &earlier, size_t half = 0) {
        if (known[half + static_cast<size_t>(agent(earlier.rank, earlier.core, earlier.lane))] >= earlier.time) return true;
        return earlier.rank == op.rank && earlier.core == op.core && earlier.lane == op.lane && earlier.time == op.time;
    }
    uint64_t end(Cells::iterator it) const { return ++it == cells_.end() ? ~uint64_t{0} : it->first; }
    Cells::iterator split(uint64_t at) {
        auto it = std::prev(cells_.upper_bound(at));
        if (it->first == at) return it;
        return cells_.emplace_hint(std::next(it), at, it->second);
    }
    Cells cells_;
};

}  // namespace standin
