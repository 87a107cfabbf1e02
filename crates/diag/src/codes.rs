//! Error codes: the table of all message codes, each with its kind, its title and its page.
//!
//! The page of a code is `docs/errors/CODE.md`. It has a title, one paragraph, a file that yields
//! exactly this code, and a repaired version of that file. A new code needs its page and a line in
//! the table below. `kbc explain CODE` prints the page. Tests run its two files.

/// What an error says about the input, or about kbc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FailureKind {
    /// The input was understood, and a proof, a comparison or a check of it fails.
    Wrong,
    /// The input has no meaning: its form, its names, its types or its sizes.
    Invalid,
    /// The input may be right, and kbc cannot do this with it.
    Unsupported,
    /// A flag, a value of the command line, or a file that cannot be read or written.
    Usage,
    /// kbc contradicts itself.
    Bug,
}

impl FailureKind {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Wrong => "wrong",
            FailureKind::Invalid => "invalid",
            FailureKind::Unsupported => "unsupported",
            FailureKind::Usage => "usage",
            FailureKind::Bug => "bug",
        }
    }
}

/// A message code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// The code itself, such as `E021`.
    pub code: &'static str,
    /// What an error with this code says about the input, or about kbc.
    pub kind: FailureKind,
    /// The meaning of the code in a few words.
    pub title: &'static str,
    /// The text of the page, in Markdown.
    pub page: &'static str,
}

macro_rules! codes {
    ($($code:ident $kind:ident $title:literal,)*) => {
        /// All codes, in ascending order.
        pub const CODES: &[Code] = &[$(Code {
            code: stringify!($code),
            kind: FailureKind::$kind,
            title: $title,
            page: include_str!(concat!("../../../docs/errors/", stringify!($code), ".md")),
        },)*];
    };
}

codes! {
    // characters, grammar and names of the text
    E001 Invalid "an invalid character, string or number",
    E002 Invalid "an unexpected word or sign",
    E003 Invalid "a `for` or a contract in a form that is not allowed",
    E004 Invalid "declared twice",
    E005 Invalid "an unknown name",
    E006 Invalid "an unknown parameter or a wrong number of arguments",
    E007 Invalid "an old form of the language",
    // meaning of an algorithm, before any data moves
    E010 Invalid "an expression without a value",
    E011 Invalid "a table whose rows or entries do not fit",
    E020 Invalid "a rank with the wrong number of coordinates",
    E021 Invalid "a rank beyond the end of an axis",
    E022 Invalid "an algorithm applied to the wrong number of axes",
    E023 Invalid "an algorithm whose recursion never ends",
    E024 Invalid "an algorithm that is not defined for this shape",
    E025 Invalid "bounds of a `for` that differ from rank to rank",
    E026 Invalid "sizes that differ and must be equal",
    E027 Invalid "a buffer that is missing, superfluous or unknown",
    E028 Invalid "an invalid selection of chunks",
    E029 Invalid "a root that is missing or superfluous",
    E030 Invalid "a rank that is not in its own group",
    E031 Invalid "a group member that does not reach an `apply`",
    E032 Invalid "members of a group that disagree",
    // options of a `using`
    E033 Invalid "an option of a `using` that has no effect",
    // standard form of a file
    E039 Wrong "a file that is not in the standard form",
    // limits
    E040 Unsupported "an algorithm that is too large to expand",
    // effects of an algorithm's rounds
    E101 Wrong "a read of an empty place",
    E102 Wrong "an input of an `apply` is missing",
    E103 Wrong "two writes to one place in one round",
    E104 Wrong "a reduction into an empty place",
    E110 Wrong "a place that is empty at the end",
    E111 Wrong "a contribution that is lost at the end",
    E112 Wrong "a contribution at the wrong place",
    E113 Wrong "a contribution that is counted twice",
    E119 Wrong "a stated cost that is wrong",
    // types and placement
    E201 Invalid "shapes that do not match",
    E202 Invalid "element types that differ",
    E203 Invalid "an axis that the mesh does not have",
    E204 Invalid "an axis that is used twice in one type",
    E205 Invalid "a coordinate that the axis does not have",
    E206 Invalid "an operation that this element type does not have",
    E207 Invalid "a contracted dimension that is split at different places",
    E208 Invalid "a collective that does not apply to this value",
    E209 Invalid "a placement that cannot be reached",
    E210 Invalid "a dimension that the value does not have",
    E211 Invalid "an incomplete operation",
    E212 Invalid "an algorithm for an operation that sends nothing",
    E213 Invalid "a module whose mesh and machine differ in size",
    E214 Invalid "no algorithm fits",
    E215 Unsupported "a tensor or mesh that is too large",
    E216 Invalid "lengths of parts that do not fit their dimension",
    E217 Invalid "an invalid matrix of counts",
    // lowering of a program
    E221 Invalid "an invalid size or coordinate",
    E222 Invalid "a kernel that calls itself",
    E223 Invalid "a mesh that does not fit the machine",
    E224 Invalid "no single program or algorithm to compile",
    E225 Invalid "the wrong number of values",
    E226 Invalid "a number where a tensor is wanted",
    E227 Unsupported "an unsupported operation in a kernel or on a tensor",
    E228 Unsupported "a kernel that becomes too large",
    E229 Invalid "a value that nothing uses",
    E230 Invalid "a value that does not fit a type of a called program",
    E231 Invalid "a size or an argument without a value",
    E232 Invalid "a program that calls itself",
    E233 Unsupported "a program that becomes too large through its calls and loops",
    E234 Invalid "an invalid host statement",
    E235 Unsupported "arithmetic on an 8-bit floating-point type",
    E236 Invalid "an invalid assignment",
    E237 Invalid "an invalid index of a tensor",
    E290 Unsupported "an unsupported language construct",
    // schedules: errors found by walking through them
    E301 Invalid "a name without a value",
    E302 Invalid "an expression without a valid result",
    E303 Invalid "a peer that is not a rank",
    E304 Invalid "a slot, a chunk or a counter that does not exist",
    E305 Invalid "two sides of different length",
    // the text of the IR
    E310 Invalid "an invalid character or number in .kir",
    E311 Invalid "a syntax error in a line of .kir",
    E312 Invalid "a name of .kir that is not declared",
    E313 Invalid "declared twice in .kir",
    E314 Invalid "a misplaced or missing line in .kir",
    E315 Invalid "an unknown word in .kir",
    E316 Unsupported "a part of a .kir file that is too large",
    E317 Unsupported "an unsupported version of .kir",
    E318 Invalid "an unused kernel in .kir",
    // the verifier
    E320 Invalid "two things with the same name",
    E321 Invalid "a name without a value in .kir",
    E322 Invalid "a graph that is not well-formed",
    E323 Invalid "types, shapes or placements that do not fit in .kir",
    E324 Invalid "a property that is claimed but not true",
    E325 Invalid "an invalid memory layout or mesh",
    E326 Invalid "ranks, roles and regions that do not fit",
    E327 Invalid "a size, bound or role that depends on the rank, step or call",
    E328 Invalid "a reference that visibly does not exist",
    E329 Invalid "an event, signal or queue that is used on one side only",
    // algorithms that cannot become a schedule
    E330 Invalid "an invalid host section",
    E331 Unsupported "an algorithm that is too large without a symbolic form",
    E332 Unsupported "chunks of unequal length at the places of other chunks",
    // the checker
    E335 Wrong "a reduction with another operator than the contract's",
    E336 Wrong "a write into an operand while its region runs",
    E337 Wrong "an operand of a contract that a local operation writes",
    E338 Wrong "two sides that overlap in part",
    E339 Wrong "a line that is not its whole buffer",
    E340 Wrong "a deadlock",
    E341 Wrong "a contribution that is lost",
    E342 Wrong "a contribution that is counted twice",
    E343 Wrong "a contribution at the wrong place",
    E344 Wrong "a read of empty memory",
    E345 Wrong "a notify that is sent before its data is complete",
    E346 Wrong "a read before the data is visible",
    E347 Wrong "a read that does not wait for its writer",
    E348 Wrong "a slot that is rewritten too early",
    E349 Wrong "a slot that the next call rewrites too early",
    E350 Wrong "memory that a transfer may still use",
    E351 Wrong "a counter with two writers",
    E352 Wrong "a counter that exceeds 32 bits",
    E353 Wrong "a schedule whose calls never repeat",
    E354 Unsupported "a schedule that is too large to prove",
    E355 Unsupported "a contract that cannot be checked",
    E356 Wrong "a message received with another size",
    E357 Wrong "messages that are never received",
    E358 Wrong "a notify that the wrong wait may use",
    E359 Invalid "a schedule that claims nothing",
    // running and timing
    E360 Invalid "data that does not fit an input",
    E361 Wrong "a deadlock in a run",
    E362 Wrong "a read of an element that was never written",
    E363 Invalid "a local operation that cannot be computed",
    E364 Invalid "a transfer between two element types",
    E365 Wrong "an output that was never written",
    E366 Wrong "an adversarial run with another result",
    E367 Wrong "a counter with an unknown initial value",
    E368 Unsupported "a run that does not fit in memory",
    E369 Unsupported "too much memory, or data that cannot be generated",
    E370 Unsupported "a schedule that cannot be timed yet",
    E371 Invalid "a mesh and a machine of different size",
    E372 Invalid "a simulated time out of range",
    E373 Unsupported "too many ranks for a simulation of time",
    E374 Unsupported "a schedule that cannot be compiled to machine code",
    E375 Invalid "a message that cannot go through a queue",
    E376 Invalid "messages that cannot be numbered",
    E377 Invalid "a message larger than a slot",

    E380 Invalid "XML that is not well formed",
    E381 Invalid "a missing attribute or an invalid value",
    E382 Invalid "a number that refers to nothing",
    E383 Invalid "elements that do not form a schedule",
    E384 Invalid "a part that a loader rejects or ignores",
    E386 Invalid "a dependency on a step that does not exist",
    E387 Invalid "a postcondition that does not fit",
    E388 Wrong "declared message sizes at which the schedule hangs",
    // files of data
    E401 Invalid "a damaged data file",
    E402 Unsupported "a data file with an unknown extension",
    E403 Unsupported "an unsupported element type, byte order or compression",
    E404 Invalid "a missing, unknown or superfluous key of a data file",
    E405 Invalid "inputs that do not match the program",
    E406 Unsupported "a result that the file format cannot store",
    E407 Invalid "an integer division by zero in the reference",
    E408 Unsupported "a value too large for the reference evaluator",
    E409 Invalid "a row number outside the table",
    // files, folders, the command line
    E410 Usage "a file, a folder or standard output that cannot be written",
    E411 Usage "an output folder that kbc did not write, or that was edited",
    E412 Usage "a file that cannot be read",
    E413 Usage "an invalid value on the command line",
    E414 Usage "a generator that cannot be used",
    E415 Usage "a partial result that cannot be written",
    E416 Usage "an argument or option that does not apply",
    E420 Usage "an unknown parameter",
    E421 Usage "a value that a parameter cannot have",
    E422 Usage "a parameter that contradicts the topology",
    // results
    E430 Wrong "results that differ from the reference",
    E431 Unsupported "a trace or log that would be too large",
    E432 Unsupported "something that was not checked",
    // machines and bounds
    E440 Invalid "an unknown topology generator",
    E441 Invalid "an invalid route of a machine",
    E442 Invalid "arguments that a topology generator does not take",
    E443 Invalid "a machine that is too large, empty or not connected",
    E444 Invalid "an unknown setting of a topology",
    E445 Invalid "an invalid value of a topology setting",
    E446 Invalid "a syntax error in a machine",
    E447 Invalid "a link that the machine does not have",
    E448 Unsupported "a lower bound that is not defined",
    // kernels of the tile level
    E449 Invalid "an incomplete kernel",
    E450 Unsupported "a kernel that exceeds the target's limits",
    E451 Unsupported "an instruction that the target does not have",
    E452 Wrong "accesses without an order between them",
    E453 Wrong "unbalanced sets and waits of a flag",
    E454 Wrong "a notify that may overtake its data",
    E455 Wrong "an access that may overtake its wait",
    E456 Invalid "an unknown or ambiguous name in a kernel",
    E457 Unsupported "a program that cannot be packaged",
    E458 Unsupported "a platform or runtime that is not supported",
    E459 Invalid "an invalid length or place in a kernel",
    // machine files
    E460 Invalid "a machine file that cannot be read",
    E461 Invalid "an unknown key of a machine file",
    E462 Invalid "a value of the wrong kind",
    E463 Invalid "a missing or inconsistent key of a machine file",
    E464 Invalid "a file for another purpose",
    E465 Invalid "a perturbation out of range",
    E466 Invalid "a key or value that is ignored",
    E467 Invalid "a world size that does not fit the machine or the algorithm",
    E468 Invalid "a tensor that does not fit into its memory",
    E469 Invalid "an invalid placement inside a device",
    // emission
    E470 Unsupported "a program that cannot be emitted",
    E471 Unsupported "more ranks than the target supports",
    E472 Unsupported "a window that is too large for a target",
    E481 Invalid "a file of published figures that cannot be read",
    // PyTorch programs
    E520 Invalid "a file that is not an exported program",
    E521 Unsupported "an exported program with an unsupported schema version",
    E522 Unsupported "an unknown PyTorch operation",
    E523 Invalid "wrong arguments or results of an operation",
    E524 Invalid "a value used before it is assigned, or assigned twice",
    E525 Invalid "a recorded type that contradicts the operation",
    E526 Invalid "operands whose sizes do not fit",
    E527 Invalid "a collective's result used before its wait",
    E528 Invalid "an unknown reduction",
    E529 Invalid "an unknown process group",
    E530 Invalid "invalid or contradictory tables of process groups",
    E531 Invalid "a collective that differs from rank to rank",
    E532 Invalid "all_to_all splits that do not match",
    E533 Invalid "a collective that a member of the group never issues",
    E534 Wrong "a deadlock between groups",
    E535 Invalid "missing or duplicate programs of ranks",
    E536 Invalid "contradictory symbolic sizes",
    E537 Invalid "an archive that cannot be used",
    E538 Unsupported "a pickle of weights that kbc does not read",
    E539 Invalid "a collective whose sizes do not fit its group",
    E540 Invalid "a local program with the wrong ranks or types",
    E541 Invalid "a pending result used without wait",
    E542 Invalid "a collective without a wait",
    E543 Invalid "a collective that a rank of its group never issues",
    E544 Invalid "a collective that differs from part to part",
    E545 Wrong "a deadlock between parts",
    E546 Invalid "a group that is not made of mesh axes",
    E547 Invalid "sizes that do not fit a collective of a local program",
    E548 Unsupported "an operation that local programs do not support",
    E549 Wrong "ranks of one part at different steps",
    E550 Unsupported "an operation of PyTorch that kbc cannot express",
    E551 Invalid "a group that is not a mesh axis",
    E552 Invalid "an integer outside the range of i32",
    E553 Invalid "stored data of another shape or type",
    E554 Invalid "a printed program that cannot be read",
    E560 Invalid "symbolic sizes that cannot be bound",
    E561 Invalid "a missing weight",
    E562 Unsupported "programs that cannot be lifted",
    E563 Invalid "stand-in headers not found",
    E564 Unsupported "a compiler that does not run or fails",
    E565 Wrong "ranks that do not compute parts of one program",
    E566 Wrong "results that differ from the unsharded model",
    E567 Wrong "a launched program that fails",
    E570 Invalid "generated elements that their type cannot represent",
    E571 Invalid "operands of a grouped matmul that do not fit",
    E580 Unsupported "a collective that cannot be overlapped with a matmul",
    E581 Invalid "a tile kernel that depends on the tile length",
    E582 Invalid "invalid sizes or types in a tile kernel",
    E583 Invalid "a sweep file that cannot be read",
    E584 Invalid "shards of a sweep that cannot be merged",
    E585 Wrong "rows of a sweep that are wrong or refused",
    E586 Wrong "documentation that is out of date",
    E587 Invalid "an algorithm that no collective of the program has",
    E588 Invalid "two things that cannot be compared",
    E589 Invalid "a `kbc dev repro` list that cannot be read",
    E590 Invalid "a figure that cannot be drawn",
    E591 Invalid "an unknown picture format",
    E592 Invalid "damaged cache entries",
    // pages
    E593 Unsupported "a report page that would be too large",
    E594 Unsupported "an input without a report page",
    E595 Unsupported "a machine for which no algorithm can be synthesised",
    E596 Unsupported "`transfer: pull` on a machine with queues",
    E597 Wrong "an order of additions that is not fixed",
    E598 Invalid "relays that a message cannot pass",
    // passes
    E901 Invalid "a pass that runs too early",
    E902 Usage "an unknown pass",
    E903 Usage "a syntax error in a pipeline",
    E904 Usage "an invalid option of a pass",
    E905 Bug "a module that does not verify after a pass",
    E906 Bug "a module that changes when printed and read back",
    // internal errors of kbc
    E990 Bug "a simulated time below its bound, or results of kbc that contradict each other",
    E991 Bug "an internal error of kbc",
    E992 Bug "machine code that disagrees with the interpreter",
    E993 Wrong "engines that differ, or a failing reader, found by fuzzing",
    E994 Wrong "a wrong decision of the schedule checker",
    E995 Bug "formatting that would change the meaning",
    E996 Wrong "a chosen algorithm more than 5 % slower than the best",
    E997 Wrong "a figure that deviates too much from the published one",
    E998 Wrong "a process of a benchmark that fails",
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
            kind: FailureKind::Invalid,
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
