//! Reasons, by error code, why the checker is right to reject mutants that no run shows to
//! misbehave.

/// Returns the reason for a code in one sentence, or a general reason if the code has none of its
/// own.
pub fn why(code: &str) -> &'static str {
    reason(code).unwrap_or("rejected without being executed")
}

/// Returns the reason for a code in one sentence, if it has one of its own.
pub fn reason(code: &str) -> Option<&'static str> {
    Some(match code {
        "E302" | "E303" | "E304" | "E305" => {
            "an expression without a value on some rank is rejected, even if it has no effect there"
        }
        "E328" => "a constant that names no chunk, slot or counter is rejected without being executed",
        "E329" => {
            "a signal is used on one side only, or an event is recorded twice: the verifier rejects this without a run"
        }
        "E335" => {
            "the operator differs from that of the contract: the result is not used again, or is the same for these values"
        }
        "E336" => {
            "it writes an operand while a region uses it: the same elements, or elements that are not used again"
        }
        "E337" => {
            "a local operation writes an operand of a region with a contract: it writes the same elements, or elements that are not used again"
        }
        "E338" => {
            "source and destination overlap in part: the simulator moves elements in one order, and a machine may choose another"
        }
        "E339" => {
            "a line does not cover its buffer: the contract does not cover the rest, which is not used here"
        }
        "E340" => "a wait or a receive can only be satisfied by a later call, and there may be no later call",
        "E341" | "E342" | "E343" => {
            "the proof covers every number of elements and every input: with these few elements, two divisions of a line are the same, or the wrong result is not used again"
        }
        "E344" => "empty memory is read; here this affects no result, but the contract does not ensure that",
        "E345" => {
            "a release is missing that a device needs before a peer or the host may read: the simulated host is never late, and the elements of a barrier are the same in every call"
        }
        "E346" => {
            "an acquire is missing that a device needs: the stale data is not used again, or belongs to a barrier, where only the order matters"
        }
        "E347" => {
            "data is read without waiting for it: it is not used again, or the same data was there before, as in a barrier, where only the order matters"
        }
        "E348" => "two writes to the same elements are in flight at once: here both write the same data",
        "E349" => {
            "data is overwritten without waiting for its reader: by the same elements, as in a barrier, or it is not used again"
        }
        "E350" => "memory is used while a transfer still reads or writes it: here the elements are the same",
        "E351" => "two ranks notify one counter, so a wait cannot distinguish them",
        "E352" => "the counter would exceed 32 bits after more calls than are run",
        "E353" => {
            "the counter runs ahead of the waits: the wait never blocks, and another one happens to give the same order"
        }
        "E358" => {
            "a wait may end one notify early or miss one: here the order follows in another way, or belongs to a barrier"
        }
        "E367" => "the initial value of the counter is unknown",
        "E357" => {
            "a message stays in a queue after its call, and the next user of the queue would receive it"
        }
        "E363" => {
            "the two sides of a local operation differ in shape on some rank: here they have the same number of elements"
        }
        "E354" => "the proof is larger than the checker's limits allow; its message names the limit",
        "E355" => "an invalid contract is rejected without being executed",
        "E359" => "the schedule claims nothing, so nothing is proven",
        "E356" => "both ends of a queue must move the same sizes in the same order",
        "E301" | "E320" | "E321" | "E322" | "E323" | "E324" | "E325" | "E326" | "E327" | "E330" => {
            "the text is not well-formed, which the verifier reports without a run"
        }
        _ => return None,
    })
}
