//! Observers of a pipeline: verification, round trip, printing, dumps, timings and reproducers.
//!
//! An observer only looks at modules. The driver owns the observers, passes them to
//! [`crate::Pipeline::run`] and afterwards reads what they collected. No observer writes a file or
//! reads a clock of its own.

use crate::pass::{Changed, PassInfo};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::Module;
use kbc_ir::text::{self, PrintOptions};

/// A step of a pipeline, as observers see it.
#[derive(Clone, Copy, Debug)]
pub struct PipelineStep<'a> {
    /// Position, counted from 1.
    pub index: usize,
    /// The record of the pass.
    pub info: &'static PassInfo,
    /// The text of this step and all later steps, which a reproducer replays.
    pub rest: &'a str,
}

/// An observer of a pipeline.
pub trait Instrument {
    /// Called before the first pass.
    fn start(&mut self, _module: &Module) {}
    /// Called before each pass.
    fn before(&mut self, _step: PipelineStep<'_>, _module: &Module) {}
    /// Called after each pass, when the new properties are set.
    ///
    /// # Errors
    /// Returns what the observer found wrong. The pipeline then stops.
    fn after(
        &mut self,
        _step: PipelineStep<'_>,
        _module: &Module,
        _changed: Changed,
    ) -> Result<(), Diagnostics> {
        Ok(())
    }
    /// Called after a pass, or an observer of it, failed. The module is not passed in, because it
    /// may be partly rewritten.
    fn failed(&mut self, _step: PipelineStep<'_>) {}
}

/// Verifies the module after every pass (E905).
#[derive(Debug, Default)]
pub struct VerifyEach;

impl Instrument for VerifyEach {
    fn after(
        &mut self,
        step: PipelineStep<'_>,
        module: &Module,
        _changed: Changed,
    ) -> Result<(), Diagnostics> {
        let found = kbc_ir::verify::verify(module);
        if !found.has_errors() {
            return Ok(());
        }
        let mut all = Diagnostics::from(
            Diagnostic::error("E905", format!("the module does not verify after pass `{}`", step.info.name))
                .primary(Span::NONE, "this is an error of kbc, not of the program")
                .help("please report it with the reproducer"),
        );
        all.extend(found);
        Err(all)
    }
}

/// Prints and parses the module after every pass, and compares the result with the module (E906).
///
/// A text is parsed once. Most passes leave most modules as they are and only add a property. If
/// only the line of properties differs from the text after the pass before, the module of that text
/// is compared. The line itself is compared with the properties, and not parsed.
#[derive(Debug, Default)]
pub struct RoundTrip {
    /// The text after the pass before, without the properties, and what it was parsed to.
    parsed: Option<(String, Module)>,
}

impl Instrument for RoundTrip {
    fn after(
        &mut self,
        step: PipelineStep<'_>,
        module: &Module,
        _changed: Changed,
    ) -> Result<(), Diagnostics> {
        let printed = text::print(module, &PrintOptions::default());
        let error = |title: String| {
            Diagnostic::error("E906", title)
                .primary(Span::NONE, "this is an error of kbc, not of the program")
                .help("please report it with the reproducer")
        };
        let bare = without_properties(&printed);
        let line = printed.lines().find_map(|l| l.strip_prefix("props ")).unwrap_or("");
        if line != module.props.names().join(" ") {
            let title = format!("the text after pass `{}` has other properties", step.info.name);
            return Err(error(title).into());
        }
        let again = match self.parsed.take() {
            Some((text, again)) if text == bare => Module { props: module.props, ..again },
            _ => text::parse(FileId::default(), &printed).map_err(|found| {
                let name = step.info.name;
                let mut all =
                    Diagnostics::from(error(format!("the text after pass `{name}` cannot be parsed")));
                // The spans of these errors point into a text that the user does not have, so the
                // labels are dropped.
                all.list.extend(found.list.into_iter().map(|d| Diagnostic { labels: vec![], ..d }));
                all
            })?,
        };
        if !text::equivalent(module, &again) {
            let title = format!("the text after pass `{}` parses to another module", step.info.name);
            return Err(error(title).into());
        }
        self.parsed = Some((bare, again));
        Ok(())
    }
}

/// Returns a printed module without the line of its properties, which is one of the lines before
/// the first empty one.
fn without_properties(printed: &str) -> String {
    let (head, body) = printed.split_once("\n\n").unwrap_or((printed, ""));
    let head: Vec<&str> = head.lines().filter(|l| !l.starts_with("props ")).collect();
    format!("{}\n\n{body}", head.join("\n"))
}

/// The passes that an observer applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PassFilter {
    /// Every pass.
    All,
    /// The passes of these names.
    Named(Vec<String>),
}

impl PassFilter {
    /// Parses `all`, or names separated by commas.
    pub fn parse(text: &str) -> PassFilter {
        match text.trim() {
            "all" => PassFilter::All,
            names => PassFilter::Named(names.split(',').map(|n| n.trim().to_owned()).collect()),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            PassFilter::All => true,
            PassFilter::Named(list) => list.iter().any(|n| n == name),
        }
    }
}

/// Collects the text of the module after some passes. A line before each text names the pass.
#[derive(Debug)]
pub struct PrintAfter {
    which: PassFilter,
    only_changed: bool,
    locs: bool,
    /// The texts, one after another.
    pub text: String,
}

impl PrintAfter {
    /// Prints after these passes.
    pub fn new(which: PassFilter, locs: bool) -> Self {
        PrintAfter { which, only_changed: false, locs, text: String::new() }
    }

    /// Prints after every pass that changed the module.
    pub fn changed(locs: bool) -> Self {
        PrintAfter { which: PassFilter::All, only_changed: true, locs, text: String::new() }
    }
}

impl Instrument for PrintAfter {
    fn after(
        &mut self,
        step: PipelineStep<'_>,
        module: &Module,
        changed: Changed,
    ) -> Result<(), Diagnostics> {
        if self.which.has(step.info.name) {
            if self.only_changed && changed == Changed::No {
                self.text += &format!("; {} changed nothing\n\n", step.info.name);
            } else {
                let printed = text::print(module, &PrintOptions { locs: self.locs });
                self.text += &format!("; after {}\n{printed}\n", step.info.name);
            }
        }
        Ok(())
    }
}

/// Collects the module before the first pass and after each pass, as files `00-input.kir`,
/// `01-infer.kir` and so on.
#[derive(Debug, Default)]
pub struct DumpDir {
    /// Whether source locations are printed.
    pub locs: bool,
    /// File names and texts, in order.
    pub files: Vec<(String, String)>,
}

impl Instrument for DumpDir {
    fn start(&mut self, module: &Module) {
        let text = text::print(module, &PrintOptions { locs: self.locs });
        self.files.push(("00-input.kir".into(), text));
    }

    fn after(
        &mut self,
        step: PipelineStep<'_>,
        module: &Module,
        _changed: Changed,
    ) -> Result<(), Diagnostics> {
        let text = text::print(module, &PrintOptions { locs: self.locs });
        self.files.push((format!("{:02}-{}.kir", step.index, step.info.name), text));
        Ok(())
    }
}

/// Measures passes with a clock that the driver supplies. The clock returns seconds since any fixed
/// moment.
pub struct Timings<'c> {
    clock: Box<dyn FnMut() -> f64 + 'c>,
    since: f64,
    /// Names of the passes and their times in seconds, in order.
    pub rows: Vec<(&'static str, f64)>,
}

impl<'c> Timings<'c> {
    /// Returns an observer with that clock. It should be the last observer, so that it does not
    /// measure the others.
    pub fn new(clock: impl FnMut() -> f64 + 'c) -> Self {
        Timings { clock: Box::new(clock), since: 0.0, rows: vec![] }
    }
}

impl Instrument for Timings<'_> {
    fn before(&mut self, _step: PipelineStep<'_>, _module: &Module) {
        self.since = (self.clock)();
    }

    fn after(
        &mut self,
        step: PipelineStep<'_>,
        _module: &Module,
        _changed: Changed,
    ) -> Result<(), Diagnostics> {
        let now = (self.clock)();
        self.rows.push((step.info.name, now - self.since));
        Ok(())
    }
}

/// Keeps the module as it was before the running pass, so that `kbc opt` can replay a failure.
/// After a panic the driver still holds this observer.
#[derive(Debug, Default)]
pub struct Reproducer {
    held: Option<(String, Module)>,
    /// Whether a pass failed.
    pub failed: bool,
}

impl Reproducer {
    /// Returns a `.kir` text that replays the pipeline from the running or failed pass on: a line
    /// `; kbc: opt -p '..'`, then the module before that pass.
    pub fn text(&self) -> Option<String> {
        let (rest, module) = self.held.as_ref()?;
        Some(format!("; kbc: opt -p '{rest}'\n{}", text::print(module, &PrintOptions::default())))
    }
}

impl Instrument for Reproducer {
    fn before(&mut self, step: PipelineStep<'_>, module: &Module) {
        self.held = Some((step.rest.to_owned(), module.clone()));
    }

    fn failed(&mut self, _step: PipelineStep<'_>) {
        self.failed = true;
    }
}
