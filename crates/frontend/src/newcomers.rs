//! Newcomer hints: words of other libraries and languages that kbc does not have, with what to
//! write instead.
//!
//! This module owns the list of words. The parser ([`crate::explain`]) and lowering decide where
//! such a word is an error.

/// Returns what to write in an algorithm instead of this word, where a statement is expected.
pub fn statement(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "send" | "isend" | "send_to" | "copy" | "move" | "write" => {
            "what is sent is put: `put [i] -> r + 1` writes block i to rank r + 1, which does nothing for it"
        }
        "recv" | "irecv" | "receive" | "recv_from" | "read" | "fetch" => {
            "nothing is received: the sender's `put [i] -> r + 1` writes into this rank; to fetch, write `get [i] <- r - 1`"
        }
        "add" | "accumulate" | "reduce_add" | "recv_reduce" | "sum" => {
            "to add where it arrives, write `put [i] -> r + 1 reduce`"
        }
        "while" | "loop" | "do" | "repeat" => "the number of rounds must be known: use `for i in a..b`",
        "barrier" | "sync" | "synchronize" | "syncthreads" => {
            "no barrier is written: every round reads what was there before it, and kbc makes the signals"
        }
        "wait" | "await" | "notify" | "signal" | "fence" | "flush" => {
            "waits and signals are not written: kbc makes them from the rounds"
        }
        "return" => "an algorithm returns nothing: its collective says what every rank holds at the end",
        "print" | "printf" | "assert" => {
            "nothing is printed or asserted: `kbc check` follows every contribution and says what is wrong"
        }
        "var" | "const" | "int" | "auto" => "a name gets its value with `let`",
        "def" | "func" | "function" => "a function is `fn`, outside of algorithms",
        "parallel" | "simultaneously" => "statements of one round stand in `together { .. }`",
        _ => return None,
    })
}

/// Returns what to write in a program instead of an operation with this name.
pub fn operation(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "send" | "recv" | "isend" | "irecv" | "receive" | "p2p" => {
            "parts of a value move between ranks by `send_recv(x, ..)`, `shift(x, ..)` or a type that asks for another placement; \
             in an algorithm, `put [i] -> r + 1`"
        }
        "add" => "write `a + b`; over ranks, all_reduce(x, sum, over: tp)",
        "sub" | "subtract" => "write `a - b`",
        "mul" | "multiply" => "write `a * b`",
        "div" | "divide" => "write `a / b`",
        "range" | "arange" => "numbers from 0 on as a tensor are `iota([n])`",
        "dot" | "mm" | "bmm" | "einsum" | "addmm" => "a product of matrices is `matmul(a, b)`",
        "linear" | "dense" | "fc" => {
            "a layer with a bias is `matmul(x, w) + b`; with split weights column_linear(x, w, b) or row_linear(x, w, b)"
        }
        "view" => "another shape is `reshape(x, [a, b])`",
        "cat" | "stack" => "write `concat(a, b, dim: 0)`",
        "where" | "cond" => "write `select(a < b, x, y)`",
        "allreduce" => "write all_reduce(x, sum, over: tp)",
        "allgather" => "write all_gather(x, dim: 0, over: tp)",
        "reducescatter" => "write reduce_scatter(x, sum, dim: 0, over: tp)",
        "alltoall" => "write all_to_all(x, from: 0, to: 1, over: tp)",
        "bcast" => "write broadcast(x, over: tp)",
        "while" | "for" | "loop" => {
            "`for i in a..b { .. }` repeats statements a fixed number of times; there is no loop that ends when a computed \
             value says so"
        }
        _ => return None,
    })
}
