//! Error codes: the table of all message codes, each with its title and its page.
//!
//! The page of a code is `docs/errors/CODE.md`. It has a title, one paragraph, a file that yields
//! exactly this code, and a repaired version of that file. A new code needs its page and a line in
//! the table below. `kbc explain CODE` prints the page. Tests run its two files.

/// A message code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// The code itself, such as `E021`.
    pub code: &'static str,
    /// The meaning of the code in a few words.
    pub title: &'static str,
    /// The text of the page, in Markdown.
    pub page: &'static str,
}

macro_rules! codes {
    ($($code:ident $title:literal,)*) => {
        /// All codes, in ascending order.
        pub const CODES: &[Code] = &[$(Code {
            code: stringify!($code),
            title: $title,
            page: include_str!(concat!("../../../docs/errors/", stringify!($code), ".md")),
        },)*];
    };
}

codes! {
    // characters, grammar and names of the text
    E001 "an invalid character, string or number",
    E002 "an unexpected word or sign",
    E003 "a `for` or a contract in a form that is not allowed",
    E004 "declared twice",
    E005 "an unknown name",
    E006 "an unknown parameter or a wrong number of arguments",
    E007 "an old form of the language",
    // meaning of an algorithm, before any data moves
    E010 "an expression without a value",
    E020 "a rank with the wrong number of coordinates",
    E021 "a rank beyond the end of an axis",
    E022 "an algorithm applied to the wrong number of axes",
    E023 "an algorithm whose recursion never ends",
    E024 "an algorithm that is not defined for this shape",
    E025 "bounds of a `for` that differ from rank to rank",
    E026 "sizes that differ and must be equal",
    E027 "a buffer that is missing, superfluous or unknown",
    E028 "an invalid selection of chunks",
    E029 "a root that is missing or superfluous",
    E030 "a rank that is not in its own group",
    E031 "a group member that does not reach an `apply`",
    E032 "members of a group that disagree",
    // options of a `using`
    E033 "an option of a `using` that has no effect",
    // standard form of a file
    E039 "a file that is not in the standard form",
    // limits
    E040 "an algorithm that is too large to expand",
    // effects of an algorithm's rounds
    E101 "a read of an empty place",
    E102 "an input of an `apply` is missing",
    E103 "two writes to one place in one round",
    E104 "a reduction into an empty place",
    E110 "a place that is empty at the end",
    E111 "a contribution that is lost at the end",
    E112 "a contribution at the wrong place",
    E113 "a contribution that is counted twice",
    E119 "a stated cost that is wrong",
    // types and placement
    E201 "shapes that do not match",
    E202 "element types that differ",
    E203 "an axis that the mesh does not have",
    E204 "an axis that is used twice in one type",
    E205 "a coordinate that the axis does not have",
    E206 "an operation that this element type does not have",
    E207 "a contracted dimension that is split at different places",
    E208 "a collective that does not apply to this value",
    E209 "a placement that cannot be reached",
    E210 "a dimension that the value does not have",
    E211 "an incomplete operation",
    E212 "an algorithm for an operation that sends nothing",
    E213 "a module whose mesh and machine differ in size",
    E214 "no algorithm fits",
    E215 "a tensor or mesh that is too large",
    E216 "lengths of parts that do not fit their dimension",
    E217 "an invalid matrix of counts",
    // lowering of a program
    E221 "an invalid size or coordinate",
    E222 "a kernel that calls itself",
    E223 "a mesh that does not fit the machine",
    E224 "no single program or algorithm to compile",
    E225 "the wrong number of values",
    E226 "a number where a tensor is wanted",
    E227 "an unsupported operation in a kernel or on a tensor",
    E228 "a kernel that becomes too large",
    E229 "a value that nothing uses",
    E230 "a value that does not fit a type of a called program",
    E231 "a size or an argument without a value",
    E232 "a program that calls itself",
    E233 "a program that becomes too large through its calls",
    E234 "an invalid host statement",
    E235 "arithmetic on an 8-bit floating-point type",
    E290 "an unsupported language construct",
    // schedules: errors found by walking through them
    E301 "a name without a value",
    E302 "an expression without a valid result",
    E303 "a peer that is not a rank",
    E304 "a slot, a chunk or a counter that does not exist",
    E305 "two sides of different length",
    // the text of the IR
    E310 "an invalid character or number in .kir",
    E311 "a syntax error in a line of .kir",
    E312 "a name of .kir that is not declared",
    E313 "declared twice in .kir",
    E314 "a misplaced or missing line in .kir",
    E315 "an unknown word in .kir",
    E316 "a part of a .kir file that is too large",
    E317 "an unsupported version of .kir",
    E318 "an unused kernel in .kir",
    // the verifier
    E320 "two things with the same name",
    E321 "a name without a value in .kir",
    E322 "a graph that is not well-formed",
    E323 "types, shapes or placements that do not fit in .kir",
    E324 "a property that is claimed but not true",
    E325 "an invalid memory layout or mesh",
    E326 "ranks, roles and regions that do not fit",
    E327 "a size, bound or role that depends on the rank, step or call",
    E328 "a reference that visibly does not exist",
    E329 "an event, signal or queue that is used on one side only",
    // algorithms that cannot become a schedule
    E330 "an invalid host section",
    E331 "an algorithm that is too large without a symbolic form",
    E332 "chunks of unequal length at the places of other chunks",
    // the checker
    E335 "a reduction with another operator than the contract's",
    E336 "a write into an operand while its region runs",
    E337 "an operand of a contract that a local operation writes",
    E338 "two sides that overlap in part",
    E339 "a line that is not its whole buffer",
    E340 "a deadlock",
    E341 "a contribution that is lost",
    E342 "a contribution that is counted twice",
    E343 "a contribution at the wrong place",
    E344 "a read of empty memory",
    E345 "a notify that is sent before its data is complete",
    E346 "a read before the data is visible",
    E347 "a read that does not wait for its writer",
    E348 "a slot that is rewritten too early",
    E349 "a slot that the next call rewrites too early",
    E350 "memory that a transfer may still use",
    E351 "a counter with two writers",
    E352 "a counter that exceeds 32 bits",
    E353 "a schedule whose calls never repeat",
    E354 "a schedule that is too large to prove",
    E355 "a contract that cannot be checked",
    E356 "a message received with another size",
    E357 "messages that are never received",
    E358 "a notify that the wrong wait may use",
    E359 "a schedule that claims nothing",
    // running and timing
    E360 "data that does not fit an input",
    E361 "a deadlock in a run",
    E362 "a read of an element that was never written",
    E363 "a local operation that cannot be computed",
    E364 "a transfer between two element types",
    E365 "an output that was never written",
    E366 "an adversarial run with another result",
    E367 "a counter with an unknown initial value",
    E368 "a run that does not fit in memory",
    E369 "too much memory, or data that cannot be generated",
    E370 "a schedule that cannot be timed yet",
    E371 "a mesh and a machine of different size",
    E372 "a simulated time out of range",
    E373 "too many ranks for a simulation of time",
    E374 "a schedule that cannot be compiled to machine code",
    E375 "a message that cannot go through a queue",
    E376 "messages that cannot be numbered",
    E377 "a message larger than a slot",

    E380 "XML that is not well formed",
    E381 "a missing attribute or an invalid value",
    E382 "a number that refers to nothing",
    E383 "elements that do not form a schedule",
    E384 "a part that a loader rejects or ignores",
    E386 "a dependency on a step that does not exist",
    E387 "a postcondition that does not fit",
    E388 "declared message sizes at which the schedule hangs",
    // files of data
    E401 "a damaged data file",
    E402 "a data file with an unknown extension",
    E403 "an unsupported element type, byte order or compression",
    E404 "a missing, unknown or superfluous key of a data file",
    E405 "inputs that do not match the program",
    E406 "a result that the file format cannot store",
    E407 "an integer division by zero in the reference",
    E408 "a value too large for the reference evaluator",
    E409 "a row number outside the table",
    // files, folders, the command line
    E410 "a file, a folder or standard output that cannot be written",
    E411 "an output folder that kbc did not write, or that was edited",
    E412 "a file that cannot be read",
    E413 "an invalid value on the command line",
    E414 "a generator that cannot be used",
    E415 "a partial result that cannot be written",
    E416 "an argument or option that does not apply",
    E420 "an unknown parameter",
    E421 "a value that a parameter cannot have",
    E422 "a parameter that contradicts the topology",
    // results
    E430 "results that differ from the reference",
    E431 "a trace or log that would be too large",
    E432 "something that was not checked",
    // machines and bounds
    E440 "an unknown topology generator",
    E442 "arguments that a topology generator does not take",
    E443 "a machine that is too large, empty or not connected",
    E444 "an unknown setting of a topology",
    E445 "an invalid value of a topology setting",
    E446 "a syntax error in a machine",
    E447 "a link that the machine does not have",
    E448 "a lower bound that is not defined",
    // kernels of the tile level
    E449 "an incomplete kernel",
    E450 "a kernel that exceeds the target's limits",
    E451 "an instruction that the target does not have",
    E452 "accesses without an order between them",
    E453 "unbalanced sets and waits of a flag",
    E454 "a notify that may overtake its data",
    E455 "an access that may overtake its wait",
    E456 "an unknown or ambiguous name in a kernel",
    E457 "a program that cannot be packaged",
    E458 "a platform or runtime that is not supported",
    E459 "an invalid length or place in a kernel",
    // machine files
    E460 "a machine file that cannot be read",
    E461 "an unknown key of a machine file",
    E462 "a value of the wrong kind",
    E463 "a missing or inconsistent key of a machine file",
    E464 "a file for another purpose",
    E465 "a perturbation out of range",
    E466 "a key or value that is ignored",
    E467 "a world size that does not fit the machine or the algorithm",
    E468 "a tensor that does not fit into its memory",
    E469 "an invalid placement inside a device",
    // emission
    E470 "a program that cannot be emitted",
    E471 "more ranks than the target supports",
    E472 "a window that is too large for a target",
    E481 "a file of published figures that cannot be read",
    // PyTorch programs
    E520 "a file that is not an exported program",
    E521 "an exported program with an unsupported schema version",
    E522 "an unknown PyTorch operation",
    E523 "wrong arguments or results of an operation",
    E524 "a value used before it is assigned, or assigned twice",
    E525 "a recorded type that contradicts the operation",
    E526 "operands whose sizes do not fit",
    E527 "a collective's result used before its wait",
    E528 "an unknown reduction",
    E529 "an unknown process group",
    E530 "invalid or contradictory tables of process groups",
    E531 "a collective that differs from rank to rank",
    E532 "all_to_all splits that do not match",
    E533 "a collective that a member of the group never issues",
    E534 "a deadlock between groups",
    E535 "missing or duplicate programs of ranks",
    E536 "contradictory symbolic sizes",
    E537 "an archive that cannot be used",
    E538 "a pickle of weights that kbc does not read",
    E539 "a collective whose sizes do not fit its group",
    E540 "a local program with the wrong ranks or types",
    E541 "a pending result used without wait",
    E542 "a collective without a wait",
    E543 "a collective that a rank of its group never issues",
    E544 "a collective that differs from part to part",
    E545 "a deadlock between parts",
    E546 "a group that is not made of mesh axes",
    E547 "sizes that do not fit a collective of a local program",
    E548 "an operation that local programs do not support",
    E549 "ranks of one part at different steps",
    E550 "an operation of PyTorch that kbc cannot express",
    E551 "a group that is not a mesh axis",
    E552 "an integer outside the range of i32",
    E553 "stored data of another shape or type",
    E554 "a printed program that cannot be read",
    E560 "symbolic sizes that cannot be bound",
    E561 "a missing weight",
    E562 "programs that cannot be lifted",
    E563 "stand-in headers not found",
    E564 "a compiler that does not run",
    E565 "ranks that do not compute parts of one program",
    E566 "results that differ from the unsharded model",
    E570 "generated elements that their type cannot represent",
    E571 "operands of a grouped matmul that do not fit",
    E580 "a collective that cannot be overlapped with a matmul",
    E581 "a tile kernel that depends on the tile length",
    E582 "invalid sizes or types in a tile kernel",
    E583 "a sweep file that cannot be read",
    E584 "shards of a sweep that cannot be merged",
    E585 "rows of a sweep that are wrong or refused",
    E586 "documentation that is out of date",
    E587 "an algorithm that no collective of the program has",
    E588 "two things that cannot be compared",
    E589 "a `kbc dev repro` list that cannot be read",
    E590 "a figure that cannot be drawn",
    E591 "an unknown picture format",
    E592 "damaged cache entries",
    // pages
    E593 "a report page that would be too large",
    E594 "an input without a report page",
    E596 "`transfer: pull` on a machine with queues",
    // passes
    E901 "a pass that runs too early",
    E902 "an unknown pass",
    E903 "a syntax error in a pipeline",
    E904 "an invalid option of a pass",
    E905 "a module that does not verify after a pass",
    E906 "a module that changes when printed and read back",
    // internal errors of kbc
    E990 "a simulated time below its bound, or results of kbc that contradict each other",
    E991 "an internal error of kbc",
    E992 "machine code that disagrees with the interpreter",
    E993 "engines that differ, or a failing reader, found by fuzzing",
    E994 "a wrong decision of the schedule checker",
    E995 "formatting that would change the meaning",
    E996 "a chosen algorithm more than 5 % slower than the best",
    E997 "a figure that deviates too much from the published one",
}

/// Returns the code of that name. Upper and lower case are equivalent.
pub fn find(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|c| c.code.eq_ignore_ascii_case(code))
}

/// An example file on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Example {
    /// Whether the file yields the page's code. Otherwise it yields no message.
    pub fails: bool,
    /// The number of ranks for which the file is checked.
    pub ranks: u32,
    /// The language: `kb`, `kir`, `tile` or `json`, or `sh` for a command line.
    pub language: &'static str,
    /// The command-line options that the file needs (`-D tp=8 --topology ring(7)`), or an empty
    /// string.
    pub args: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

impl Code {
    /// Returns the reason why the page has no files that can be run. A block fenced as
    /// `text,why=..` states it.
    pub fn why_no_examples(&self) -> Option<&'static str> {
        Some(self.page.split_once("\n```text,why=")?.1.lines().next().unwrap_or(""))
    }

    /// Returns the example files of the page: the blocks fenced as `kb,fails` and `kb,fixed` (or
    /// `kir,..`, `tile,..`, `json,..`, `sh,..`). The fence has `p=6` if the number of ranks is not
    /// 4, and the command-line options (`kb,fails,-D tp=8`) if the file needs any. All other blocks
    /// are prose.
    pub fn examples(&self) -> Vec<Example> {
        let mut out = vec![];
        let mut rest = self.page;
        while let Some((_, after)) = rest.split_once("\n```") {
            let Some((info, body)) = after.split_once('\n') else { break };
            let Some(end) = body.find("```") else { break };
            rest = &body[end + 3..];
            let mut words = info.split(',').map(str::trim);
            let language = words.next().unwrap_or("");
            let fails = match words.next() {
                Some("fails") => true,
                Some("fixed") => false,
                _ => continue,
            };
            let (mut ranks, mut args) = (4, "");
            for w in words {
                match w.strip_prefix("p=").map(str::parse) {
                    Some(Ok(p)) => ranks = p,
                    _ if w.starts_with('-') => args = w,
                    _ => {}
                }
            }
            out.push(Example { fails, ranks, language, args, text: &body[..end] });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_in_order_and_found() {
        for pair in CODES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} before {}", pair[0].code, pair[1].code);
        }
        assert_eq!(find("e021").map(|c| c.code), Some("E021"));
        assert_eq!(find("E999"), None);
    }

    #[test]
    fn every_page_has_its_parts() {
        for c in CODES {
            let mut lines = c.page.lines();
            assert_eq!(lines.next(), Some(format!("# {}: {}", c.code, c.title).as_str()));
            assert_eq!(lines.next(), Some(""));
            assert!(lines.next().is_some_and(|l| l.len() > 40), "{}: a paragraph", c.code);
        }
    }

    #[test]
    fn every_page_is_in_the_table() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let files: BTreeSet<String> = std::fs::read_dir(dir)
            .expect("the folder of pages")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let table: BTreeSet<String> = CODES.iter().map(|c| format!("{}.md", c.code)).collect();
        assert_eq!(files, table);
    }

    #[test]
    fn examples_of_a_page() {
        let c = Code {
            code: "E000",
            title: "t",
            page: "# E000: t\n\n```sh\nx\n```\n\n```kb,fails,p=6\na\nb\n```\n\n```kb,fixed\nc\n```\n",
        };
        let e = c.examples();
        assert_eq!(
            e.iter().map(|e| (e.fails, e.ranks, e.text)).collect::<Vec<_>>(),
            [(true, 6, "a\nb\n"), (false, 4, "c\n")]
        );
    }
}
