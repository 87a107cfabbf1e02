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
    /// Its language: `kb` or `kir`.
    pub language: &'static str,
    /// The file.
    pub text: &'static str,
}

impl Code {
    /// The files of the page: blocks fenced as `kb,fails` and `kb,fixed` (or `kir,..`), with `p=6` where the number of
    /// ranks is not 4. Other blocks are prose.
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
            let ranks = words.find_map(|w| w.strip_prefix("p=")?.parse().ok()).unwrap_or(4);
            out.push(Example { fails, ranks, language, text: &body[..end] });
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
