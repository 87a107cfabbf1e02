//! Entries of the table of passes: the record of a pass, and its documentation page.

use crate::pass::{Options, Pass, PassInfo};

/// An entry of the table of passes.
pub struct Entry {
    /// The record of the pass.
    pub info: &'static PassInfo,
    /// Makes the pass from options that were checked against the record.
    pub make: fn(&Options) -> Box<dyn Pass>,
    /// The source text of the pass's module, whose header is the documentation page of the pass.
    pub source: &'static str,
}

impl Entry {
    /// Returns the documentation page of the pass, made from its record and the header (`//!`) of
    /// its module.
    pub fn page(&self) -> String {
        let info = self.info;
        let lines = self.source.lines().map_while(|l| l.strip_prefix("//!"));
        let text: Vec<&str> = lines.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect();
        let names = |p: kbc_ir::Props| match p.names() {
            n if n.is_empty() => "nothing".to_owned(),
            n => n.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
        };
        let mut out = format!("# {}\n\n{}.\n\n", info.name, sentence(info.summary));
        out += &format!(
            "Needs {}; gives {}; breaks {}.\n\n",
            names(info.requires),
            names(info.gives),
            names(info.breaks)
        );
        for o in info.options {
            out += &format!("* option `{}`: {} ({}; default {})\n", o.name, o.summary, o.kind, o.default);
        }
        out += if info.options.is_empty() { "" } else { "\n" };
        out += text.join("\n").trim_end();
        out.push('\n');
        out
    }
}

/// Returns the text with a capital first letter.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}
