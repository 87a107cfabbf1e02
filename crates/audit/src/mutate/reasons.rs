//! Reasons, by error code, why the checker is right to reject mutants that no run shows to
//! misbehave.

/// Returns the reason for a code in one sentence, or a general reason if the code has none of its
/// own.
pub fn why(code: &str) -> &'static str {
    reason(code).unwrap_or("refused where it stands")
}

/// Returns the reason for a code in one sentence, if it has one of its own.
pub fn reason(code: &str) -> Option<&'static str> {
    Some(match code {
        "E302" | "E303" | "E304" | "E305" => {
            "what has no meaning on some rank is refused where it stands, also where nothing is moved"
        }
        "E328" => "a constant that names no chunk, slot or counter is refused where it stands",
        "E329" => {
            "a signal with one side only, or an event recorded twice: the verifier refuses what need not be run"
        }
        "E335" => {
            "it combines by another operator than the contract's: what comes of it is not used again, or is the same for these \
             values"
        }
        "E336" => {
            "it writes into an operand that a region is at work on: the same elements, or elements that are not used again"
        }
        "E337" => {
            "a local operation writes an operand of a region with a contract, of which the contract then says nothing: it \
             writes the same elements, or elements that are not used again"
        }
        "E338" => {
            "source and destination overlap in part: the simulator moves elements in one order, and a machine may choose another"
        }
        "E339" => {
            "a line is not its whole buffer: the contract says nothing of the rest, which is not used here"
        }
        "E340" => {
            "a wait or a receive is behind what it waits for in this call, and no call to come may be what it needs"
        }
        "E341" | "E342" | "E343" => {
            "the proof is for every number of elements and every input: with these few, two cuts of a line are the same, or \
             what is wrong is not used again"
        }
        "E344" => {
            "what holds nothing is read; what comes of it reaches no result here, and that is not promised"
        }
        "E345" => {
            "the release is missing that the device needs before a peer, or the host, may look: the host of a simulation is \
             never late, and the elements of a barrier are the same in every call"
        }
        "E346" => {
            "the acquire is missing that the device needs: what is read stale is not used again, or is a barrier's, of which \
             the order counts and not the elements"
        }
        "E347" => {
            "it is read before anything says that it is there: it is not used again, or the same was there before, as in a \
             barrier, of which the order counts and not the elements"
        }
        "E348" => "two writes to the same elements are under way at once: here both bring the same",
        "E349" => {
            "it is overwritten before anything says that it was read: by the same elements, as in a barrier, or it is not \
             used again"
        }
        "E350" => "a transfer still reads or writes what is used: here the elements are the same",
        "E351" => "two ranks add to one counter, so that a wait does not know of whom it hears",
        "E352" => "the counter would leave its 32 bits, after more calls than are run",
        "E353" => {
            "the counter gains on what is waited for, call after call: the wait waits for nothing, and another one happens to order the same"
        }
        "E358" => {
            "a wait may pass a notify short, or miss one: what it was to hear is known in another way here, or is a barrier's"
        }
        "E367" => "nobody says what the counter holds at first",
        "E357" => {
            "a message stays in a queue after its call, and the next user of the queue would receive it"
        }
        "E363" => {
            "the two sides of a local operation differ in shape on some rank: here they hold as many elements all the same"
        }
        "E354" => "the proof is larger than the checker's limits allow; its message names the limit",
        "E355" => "a contract that cannot be read as one is refused where it stands, whatever the ranks do",
        "E359" => "the schedule claims nothing, so that nothing is proven of it",
        "E356" => "both ends of a queue must move the same sizes in the same order",
        "E301" | "E320" | "E321" | "E322" | "E323" | "E324" | "E325" | "E326" | "E327" | "E330" => {
            "the text is not well-formed, which the verifier says without running anything"
        }
        _ => return None,
    })
}
