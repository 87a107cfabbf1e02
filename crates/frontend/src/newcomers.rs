//! Newcomer hints: words of other libraries and languages that kbc does not have, with what to
//! write instead.
//!
//! This module owns the list of words. The parser ([`crate::explain`]) and lowering decide where
//! such a word is an error.

/// Returns what to write in an algorithm instead of this word, where a statement is expected.
pub fn statement(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "send" | "isend" | "send_to" | "copy" | "move" | "write" => {
            "to send, write `put [i] -> r + 1`: it writes block i to rank r + 1, which needs no statement for it"
        }
        "recv" | "irecv" | "receive" | "recv_from" | "read" | "fetch" => {
            "there is no receive: the sender's `put [i] -> r + 1` writes into this rank; to fetch data, write `get [i] <- r - 1`"
        }
        "add" | "accumulate" | "reduce_add" | "recv_reduce" | "sum" => {
            "to add the data at its destination, write `put [i] -> r + 1 reduce`"
        }
        "while" | "loop" | "do" | "repeat" => {
            "the number of rounds must be known beforehand: use `for i in a..b`"
        }
        "barrier" | "sync" | "synchronize" | "syncthreads" => {
            "an algorithm has no barriers: every round reads the state before it, and kbc generates the signals"
        }
        "wait" | "await" | "notify" | "signal" | "fence" | "flush" => {
            "an algorithm has no waits and signals: kbc generates them from the rounds"
        }
        "return" => {
            "an algorithm returns nothing: the contract of its collective states what every rank holds at the end"
        }
        "print" | "printf" | "assert" => {
            "an algorithm cannot print or assert: `kbc check` follows every contribution and reports errors"
        }
        "var" | "const" | "int" | "auto" => "to name a value, write `let`",
        "def" | "func" | "function" => "declare a function with `fn`, outside of algorithms",
        "parallel" | "simultaneously" => "put the statements of one round into `together { .. }`",
        _ => return None,
    })
}

/// Returns what to write in a program instead of an operation with this name.
pub fn operation(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "send" | "recv" | "isend" | "irecv" | "receive" | "p2p" => {
            "to move parts of a value between ranks, write `send_recv(x, ..)`, `shift(x, ..)` or a type with another placement; in an algorithm, `put [i] -> r + 1`"
        }
        "add" => "write `a + b`; over ranks, all_reduce(x, sum, over: tp)",
        "sub" | "subtract" => "write `a - b`",
        "mul" | "multiply" => "write `a * b`",
        "div" | "divide" => "write `a / b`",
        "range" | "arange" => "for a tensor of the numbers 0, 1, 2, .. write `iota([n])`",
        "dot" | "mm" | "bmm" | "einsum" | "addmm" => "for a matrix product write `matmul(a, b)`",
        "linear" | "dense" | "fc" => {
            "for a linear layer write `matmul(x, w) + b`; with split weights column_linear(x, w, b) or row_linear(x, w, b)"
        }
        "view" => "to change the shape, write `reshape(x, [a, b])`",
        "cat" | "stack" => "write `concat(a, b, dim: 0)`",
        "where" | "cond" => "write `select(a < b, x, y)`",
        "allreduce" => "write all_reduce(x, sum, over: tp)",
        "allgather" => "write all_gather(x, dim: 0, over: tp)",
        "reducescatter" => "write reduce_scatter(x, sum, dim: 0, over: tp)",
        "alltoall" => "write all_to_all(x, from: 0, to: 1, over: tp)",
        "bcast" => "write broadcast(x, over: tp)",
        "while" | "for" | "loop" => {
            "`for i in a..b { .. }` repeats statements a fixed number of times; no loop can end on a computed condition"
        }
        _ => return None,
    })
}
