//! Registry of all passes, in the order in which they usually run. `kbc passes` prints it.
//!
//! A pass is one module and one line here.

use crate::pass::{Options, Pass, PassInfo};
use crate::{allocate, enqueue, expand, infer, lower_queues, overlap, place, select, synchronize};

/// An entry of the registry: one pass.
pub struct Entry {
    /// The record of the pass.
    pub info: &'static PassInfo,
    /// Makes the pass from options that were checked against the record.
    pub make: fn(&Options) -> Box<dyn Pass>,
    /// The source text of the pass's module, whose header is the documentation page of the pass.
    pub source: &'static str,
}

/// All passes.
pub static ALL: &[Entry] = &[
    Entry { info: &infer::INFO, make: |_| Box::new(infer::Infer), source: include_str!("infer/mod.rs") },
    Entry { info: &place::INFO, make: |_| Box::new(place::Place), source: include_str!("place.rs") },
    Entry {
        info: &select::INFO,
        make: |o| Box::new(select::Select::new(o)),
        source: include_str!("select.rs"),
    },
    Entry {
        info: &overlap::INFO,
        make: |o| Box::new(overlap::Overlap::new(o)),
        source: include_str!("overlap/mod.rs"),
    },
    Entry { info: &expand::INFO, make: |_| Box::new(expand::Expand), source: include_str!("expand/mod.rs") },
    Entry {
        info: &allocate::INFO,
        make: |_| Box::new(allocate::Allocate),
        source: include_str!("allocate.rs"),
    },
    Entry {
        info: &synchronize::INFO,
        make: |_| Box::new(synchronize::Synchronize),
        source: include_str!("synchronize.rs"),
    },
    Entry {
        info: &enqueue::INFO,
        make: |o| Box::new(enqueue::Enqueue::new(o)),
        source: include_str!("enqueue/mod.rs"),
    },
    Entry {
        info: &lower_queues::INFO,
        make: |_| Box::new(lower_queues::LowerQueues),
        source: include_str!("lower_queues/mod.rs"),
    },
];

/// Returns the pass of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.info.name == name)
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
