//! All codes of messages, with a title and a page each.
//!
//! A page is `docs/errors/CODE.md`: a title, one paragraph, a file that yields exactly this code and the same file put
//! right. To add a code, add its page and a line here. `kbc explain CODE` prints the page; tests run its two files.

/// A code of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// `E021`
    pub code: &'static str,
    /// What it stands for, in a few words.
    pub title: &'static str,
    /// The page, in Markdown.
    pub page: &'static str,
}

macro_rules! codes {
    ($($code:ident $title:literal,)*) => {
        /// Every code, in order.
        pub const CODES: &[Code] = &[$(Code {
            code: stringify!($code),
            title: $title,
            page: include_str!(concat!("../../../docs/errors/", stringify!($code), ".md")),
        },)*];
    };
}

codes! {
    // text: characters, grammar, names
    E001 "a character that means nothing",
    E002 "a word or sign at a place where it cannot stand",
    E003 "a `for` or a name of a promise where it cannot stand",
    E004 "declared twice",
    E005 "an unknown name",
    E006 "an unknown parameter or a wrong number of arguments",
    // meaning of an algorithm, before any data moves
    E010 "arithmetic that has no result",
    E020 "a rank with another number of coordinates",
    E021 "a rank off an open axis",
    E022 "an algorithm applied to another number of axes",
    E023 "an algorithm that applies itself without end",
    E024 "an algorithm that is not made for this shape",
    E025 "bounds of a `for` that differ from rank to rank",
    E026 "two sides of different size",
    E027 "a buffer that is missing, superfluous or unknown",
    E028 "a selection that cannot be made",
    E029 "a root that is missing or superfluous",
    E030 "a rank that is not in its own group",
    E031 "a member of a group that does not arrive",
    E032 "members of a group that disagree",
    // options of a `using`
    E033 "an option of a `using` that cannot be honoured",
    // form
    E039 "a file that is not in its one form",
    // limits
    E040 "too large to write out",
    // what its rounds do
    E101 "a read of a place that holds nothing",
    E102 "an input of an `apply` is missing",
    E103 "two writes to one place in one round",
    E104 "a reduction into a place that holds nothing",
    E110 "a place that is empty at the end",
    E111 "a contribution that is lost at the end",
    E112 "a contribution at the wrong place",
    E113 "a contribution that is counted twice",
    E119 "costs that are not as documented",
    // types and placement
    E201 "shapes that do not match",
    E202 "element types that differ",
    E203 "an axis that the mesh does not have",
    E204 "an axis with two jobs in one type",
    E205 "a coordinate that the axis does not have",
    E206 "an operation that this element type does not have",
    E207 "a contracted dimension that is cut in two ways",
    E208 "a collective that does not apply to this value",
    E209 "a placement that cannot be reached",
    E210 "a dimension that the value does not have",
    E211 "an operation without what it needs",
    E212 "an algorithm where nothing is sent",
    E213 "a mesh that is not as large as its machine",
    E214 "no algorithm fits",
    E215 "a value larger than any memory",
    E216 "lengths of parts that are not those of a dimension",
    E217 "a matrix of counts that cannot be",
    // lowering of a program
    E221 "a size or coordinate that cannot be",
    E222 "a kernel that calls itself",
    E223 "a mesh that does not fit the machine",
    E224 "nothing that can be compiled",
    E225 "another number of values",
    E226 "a number where a tensor is wanted",
    E227 "something a kernel or a tensor cannot do",
    E228 "a kernel that becomes too large",
    E229 "a value that nothing uses",
    E230 "a value that does not fit a type of a called program",
    E231 "a size or an argument that nothing says",
    E232 "a program that calls itself",
    E233 "a program that becomes too large by its calls",
    E234 "a statement of the host that cannot be",
    E290 "a part of the language that is not there yet",
    // schedules: what walking them shows
    E301 "a name without a value",
    E302 "an expression without a result",
    E303 "a peer that is no rank",
    E304 "a slot, a chunk or a counter that does not exist",
    E305 "two sides of different length",
    // the text of the IR
    E310 "a character or number that means nothing in .kir",
    E311 "a line of .kir that is written wrongly",
    E312 "a name of .kir that is not declared",
    E313 "declared twice in .kir",
    E314 "a line of .kir at the wrong place",
    E315 "a word .kir does not have",
    E316 "too large for .kir",
    E317 "another version of .kir",
    E318 "a kernel of .kir that nothing uses",
    // the verifier
    E320 "two things of one name",
    E321 "a name without a value in .kir",
    E322 "a graph out of order",
    E323 "types, shapes or placements that do not fit in .kir",
    E324 "a property that is claimed and not true",
    E325 "a layout that cannot be",
    E326 "ranks, roles and regions that do not fit",
    E327 "a size or bound that depends on too much",
    E328 "a chunk, slot or peer that can be seen not to exist",
    E329 "an event or signal with one side only",
    // algorithms that become no schedule
    E330 "a host's program that cannot be",
    E331 "an algorithm that is too large without a symbolic form",
    E332 "chunks of unequal length at places that are not theirs",
    // the checker
    E335 "a reduction with another operator than the contract's",
    E336 "a write into an operand of a region that is at work",
    E337 "an operand that is computed, not moved",
    E338 "two sides that overlap in part",
    E339 "a line that is not its whole buffer",
    E340 "a deadlock",
    E341 "a contribution that is lost",
    E342 "a contribution that is counted twice",
    E343 "a contribution at the wrong place",
    E344 "a read of something that holds nothing",
    E345 "a notify that does not cover what it tells of",
    E346 "a read before the data is visible",
    E347 "a read with nothing that waits for its writer",
    E348 "a slot that is rewritten too early",
    E349 "a slot that the next call rewrites too early",
    E350 "memory that a transfer may still use",
    E351 "a counter with two writers",
    E352 "a counter that leaves 32 bits",
    E353 "calls that never repeat",
    E354 "too much to prove",
    E355 "a promise that cannot be checked",
    E356 "a message of another size",
    E357 "messages that nobody receives",
    E358 "a notify that another wait may take for its own",
    E359 "a schedule that claims nothing",
    // running and timing
    E360 "data that does not fit an input",
    E361 "a run that can go no further",
    E362 "a run that reads nothing",
    E363 "a local operation without a result",
    E364 "a transfer between two element types",
    E365 "an output that was never written",
    E366 "a run that differs under the adversaries",
    E367 "a counter that holds nobody knows what",
    E368 "a run that does not fit in memory",
    E369 "something that does not fit in memory, or cannot be made",
    E370 "a schedule that has no time yet",
    E371 "a mesh and a machine of different size",
    E372 "a time beyond any clock",
    E373 "too many ranks for a simulation of time",
    E374 "a schedule that cannot become machine code",
    E375 "a message that queues cannot carry",
    E376 "messages that cannot be counted",
    E377 "a message larger than a slot",

    E380 "XML that is not well formed",
    E381 "an attribute that is missing or means nothing",
    E382 "a number that names nothing",
    E383 "elements that make no schedule",
    E384 "what a loader refuses or ignores",
    E386 "a dependency on a step that is not there",
    E387 "a postcondition that does not fit",
    E388 "declared sizes at which it hangs",
    // files of data
    E401 "a data file that is not sound",
    E402 "a kind of data file kbc does not know",
    E403 "contents of a data file that kbc does not read",
    E404 "a key that the file does not have",
    E405 "data that the evaluator cannot use",
    E406 "a result that the file cannot hold",
    E407 "an integer division by zero in the reference",
    E408 "a value the evaluator cannot hold",
    E409 "a number that is no row of a table",
    // files, folders, the command line
    E410 "a file, a folder or standard output that cannot be written",
    E411 "a folder that kbc does not replace",
    E412 "a file that cannot be read",
    E413 "a value on the command line that is not of its form",
    E414 "a generator that cannot be used",
    E415 "a result that is not one tensor",
    E416 "a word or flag that means nothing here",
    E420 "a parameter that the program does not have",
    E421 "a value that a parameter cannot have",
    E422 "a parameter against a topology",
    // results
    E430 "results that are not what they should be",
    E431 "a trace or log that would be too large",
    E432 "something that was not checked",
    // machines and bounds
    E440 "an unknown topology generator",
    E442 "a generator with other arguments than it takes",
    E443 "a machine that is too large or empty",
    E444 "an unknown setting of a topology",
    E445 "a setting with a value it cannot have",
    E446 "a machine that is written wrongly",
    E447 "a link that the machine does not have",
    E448 "no bound of this",
    // kernels of the tile level
    E449 "a kernel that its passes have not completed",
    E450 "more than the target has room for",
    E451 "an instruction that the target does not have",
    E452 "accesses that nothing orders",
    E453 "a flag with one side only",
    E454 "a notify that may overtake its data",
    E455 "an access that may overtake its wait",
    E456 "a name of a kernel that means nothing, or two things",
    E457 "a program that cannot be packaged",
    E458 "a platform or runtime that is not supported",
    E459 "a length or a place that cannot be",
    // machine files
    E460 "a text that is no machine file",
    E461 "an unknown key of a machine file",
    E462 "a value of another kind than its key takes",
    E463 "a machine file without a key that it needs",
    E464 "a machine file of another model",
    E465 "a perturbation out of range",
    E466 "a key that is kept and not used",
    E467 "a world of ranks that the machine or the algorithm does not have",
    E468 "a tensor that has no place in a memory",
    E469 "a placement inside a device that cannot be",
    // emission
    E470 "a program that has no emitted form",
    E471 "more ranks than a target has",
    E472 "a window that is too large for a target",
    E481 "a file of published figures that cannot be read",
    // PyTorch programs
    E520 "a file that is no exported program",
    E521 "an exported program of another schema",
    E522 "an operation that kbc does not know",
    E523 "an argument that an operation does not take",
    E524 "a value that is not there",
    E525 "a record that contradicts its operation",
    E526 "operands that do not fit",
    E527 "a result of a collective that nothing has waited for",
    E528 "a reduction that does not exist",
    E529 "a group that is not known",
    E530 "tables of groups that cannot be",
    E531 "a collective that differs from rank to rank",
    E532 "splits that do not fit together",
    E533 "a collective that a member of the group never issues",
    E534 "ranks that wait for each other",
    E535 "ranks that are missing or there twice",
    E536 "sizes that cannot be",
    E537 "an archive that cannot be used",
    E538 "weights that kbc does not read",
    E539 "a group of another size than a collective says",
    E540 "a local program with the wrong ranks or types",
    E541 "a value that is used before it is there",
    E542 "a collective that nobody waits for",
    E543 "a collective that a rank of its group never issues",
    E544 "a collective that differs from part to part",
    E545 "parts that wait for each other",
    E546 "a group that is no group of axes",
    E547 "a collective that a rank's sizes do not fit",
    E548 "what local programs do not have",
    E549 "ranks of one part at different steps",
    E550 "an operation of PyTorch that kbc cannot express",
    E551 "a group that is no axis of a mesh",
    E552 "data that a `.kb` file cannot hold",
    E553 "stored data of another shape or type",
    E554 "a text that is no printed program",
    E560 "symbols of sizes that do not fit",
    E561 "a file of weights without a weight",
    E562 "programs that are no global program",
    E563 "no stand-in headers",
    E564 "a compiler that does not run",
    E565 "ranks that compute no parts of one program",
    E566 "results that differ from the unsharded model",
    E570 "elements that their type does not have",
    E571 "a grouped product that does not fit",
    E580 "a collective that cannot be cut with its product",
    E581 "what a tile kernel may not say",
    E582 "sizes and types inside a tile kernel",
    E583 "a sweep file that cannot be read",
    E584 "parts of a sweep that do not fit together",
    E585 "rows of a sweep that are wrong or refused",
    E586 "documentation that is not as it is made",
    E587 "an algorithm that no collective takes",
    E588 "two things that cannot be compared",
    E589 "a list of what is regenerated that cannot be read",
    E590 "a figure that cannot be drawn",
    E591 "a picture of no known form",
    E592 "damaged entries of a cache",
    // pages
    E593 "a page that would be too large",
    E594 "there is no page of that",
    E596 "a message that is fetched, on a machine with queues",
    // passes
    E901 "a pass that runs too early",
    E902 "an unknown pass",
    E903 "a pipeline that is written wrongly",
    E904 "an option that a pass does not have",
    E905 "a module that does not verify after a pass",
    E906 "a module that does not read back as it was printed",
    // errors of kbc itself
    E990 "a time below its bound",
    E991 "a report that cannot be written",
    E992 "machine code that disagrees with the interpreter",
    E993 "two engines that differ, or a reader that fails, on a random input",
    E994 "a checker that is wrong about a mutant or a right schedule",
    E995 "a text whose form would mean something else",
    E996 "an algorithm was chosen that is more than 5 % slower than the best",
    E997 "a figure farther from the published one than its file allows",
}

/// The code of that name; upper or lower case.
pub fn find(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|c| c.code.eq_ignore_ascii_case(code))
}

/// A file of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Example {
    /// Whether it yields the page's code; otherwise it yields no message.
    pub fails: bool,
    /// The number of ranks to check it on.
    pub ranks: u32,
    /// Its language: `kb`, `kir`, `tile` or `json`; or `sh`, a command line.
    pub language: &'static str,
    /// Options of the command line it needs (`-D tp=8 --topology ring(7)`), or nothing.
    pub args: &'static str,
    /// The file.
    pub text: &'static str,
}

impl Code {
    /// Why the page has no files that can be run: a block fenced as `text,why=..`.
    pub fn why_no_examples(&self) -> Option<&'static str> {
        Some(self.page.split_once("\n```text,why=")?.1.lines().next().unwrap_or(""))
    }

    /// The files of the page: blocks fenced as `kb,fails` and `kb,fixed` (or `kir,..`, `tile,..`, `json,..`, `sh,..`), with `p=6` where the
    /// number of ranks is not 4 and with options of the command line (`kb,fails,-D tp=8`) where it needs some. Others are
    /// prose.
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
