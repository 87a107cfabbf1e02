//! Pipelines such as `infer,place,select{by=time},expand`: their text, order check and execution.
//!
//! This module owns the text form, the named pipelines and the pass manager. Observers of a run are
//! in [`crate::instrument`].

use crate::ALL;
use crate::instrument::{Instrument, PipelineStep};
use crate::pass::{Changed, Options, Pass, PassCx, PassInfo};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::{Module, Props};

/// Named pipelines. Such a name may stand wherever the name of a pass may stand.
pub const PIPELINES: &[(&str, &str)] = &[
    ("graph", "infer,place,fuse,select"),
    ("lower", "expand,allocate,synchronize"),
    (
        "windows",
        "infer,place,fuse,select{effort=0,sums=false},overlap{tasks=true},expand,allocate,synchronize",
    ),
    (
        "tasks",
        "infer,place,fuse,select{effort=0,sums=false},overlap{tasks=true},expand{matrix=true},allocate,synchronize",
    ),
    ("default", "infer,place,fuse,select,overlap,expand,allocate,synchronize"),
    ("queues", "infer,place,fuse,select,expand,enqueue"),
];

/// A sequence of passes.
#[derive(Default)]
pub struct Pipeline {
    passes: Vec<Box<dyn Pass>>,
}

impl Pipeline {
    /// Returns a pipeline without passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses `a,b{n=2},c`. Spans are byte ranges of `text` in `file`.
    ///
    /// # Errors
    /// Returns all errors found: E902 for an unknown pass, E903 for text that is not a pipeline,
    /// E904 for an option.
    pub fn parse(text: &str, file: FileId) -> Result<Pipeline, Diagnostics> {
        let mut found = Diagnostics::new();
        let mut passes = vec![];
        Reader { text, at: 0, file }.pipeline(&mut passes, &mut found);
        if found.has_errors() { Err(found.finish()) } else { Ok(Pipeline { passes }) }
    }

    /// Returns the named pipeline.
    ///
    /// # Errors
    /// Returns E902 if there is no such pipeline.
    pub fn named(name: &str) -> Result<Pipeline, Diagnostics> {
        match PIPELINES.iter().find(|p| p.0 == name) {
            Some((_, text)) => Pipeline::parse(text, Span::NONE.file),
            None => Err(unknown(name, Span::NONE).into()),
        }
    }

    /// Adds a pass at the end.
    pub fn push(&mut self, pass: Box<dyn Pass>) {
        self.passes.push(pass);
    }

    /// Returns the passes in order.
    pub fn passes(&self) -> impl Iterator<Item = &dyn Pass> {
        self.passes.iter().map(|p| &**p)
    }

    /// Returns the pipeline as text.
    pub fn text(&self) -> String {
        self.text_from(0)
    }

    fn text_from(&self, first: usize) -> String {
        let parts: Vec<String> =
            self.passes[first..].iter().map(|p| format!("{}{}", p.info().name, p.options())).collect();
        parts.join(",")
    }

    /// Checks whether the passes can run in this order on a module with which this much is done
    /// ([`Module::done`]). Runs nothing.
    ///
    /// # Errors
    /// Returns E901, which names the pass that would give the missing property.
    pub fn check(&self, done: Props) -> Result<(), Diagnostics> {
        let mut props = done;
        for p in &self.passes {
            let info = p.info();
            if is_done(info, props) {
                continue;
            }
            if !props.contains(info.requires) {
                return Err(order_error(info, props).into());
            }
            props = props.without(info.breaks).with(info.gives).with_earlier();
        }
        Ok(())
    }

    /// Runs the passes on a module, observed by `watch`. The order is checked before anything runs.
    ///
    /// A pass is skipped if the module already has what the pass gives, so a pipeline continues
    /// wherever a module stands, and leaves a finished module as it is. Observers see the pass as
    /// one that changed nothing.
    ///
    /// # Errors
    /// Returns the errors of a pass or of an observer, or E901 if the order is wrong.
    pub fn run(
        &self,
        module: &mut Module,
        cx: &PassCx<'_>,
        watch: &mut [&mut dyn Instrument],
    ) -> Result<(), Diagnostics> {
        self.check(module.done())?;
        for w in watch.iter_mut() {
            w.start(module);
        }
        for (i, pass) in self.passes.iter().enumerate() {
            let info = pass.info();
            let rest = self.text_from(i);
            let step = PipelineStep { index: i + 1, info, rest: &rest };
            for w in watch.iter_mut() {
                w.before(step, module);
            }
            let skipped = is_done(info, module.done());
            let mut result = if skipped { Ok(Changed::No) } else { pass.run(module, cx) };
            if let Ok(changed) = result {
                if !skipped {
                    module.props = module.props.without(info.breaks).with(info.gives);
                    kbc_ir::text::retain_attributes(module);
                }
                result = after(step, module, changed, watch).map(|()| changed);
            }
            if let Err(d) = result {
                for w in watch.iter_mut() {
                    w.failed(step);
                }
                return Err(d.finish());
            }
        }
        Ok(())
    }
}

/// Checks whether a module with which this much is done has what the pass gives. A pass that gives
/// only what it requires has to run to find out whether it has anything to do.
fn is_done(info: &PassInfo, done: Props) -> bool {
    done.contains(info.gives) && !info.requires.contains(info.gives)
}

fn after(
    step: PipelineStep<'_>,
    module: &Module,
    changed: Changed,
    watch: &mut [&mut dyn Instrument],
) -> Result<(), Diagnostics> {
    watch.iter_mut().try_for_each(|w| w.after(step, module, changed))
}

fn order_error(info: &PassInfo, props: Props) -> Diagnostic {
    let missing = info.requires.without(props);
    let d = Diagnostic::error(
        "E901",
        format!("pass `{}` cannot run here: the module is not {}", info.name, missing.names().join(", ")),
    )
    .primary(Span::NONE, "needed before this pass");
    let mut givers: Vec<&str> = vec![];
    for (_, one) in Props::NAMES.iter().filter(|(_, p)| missing.contains(*p)) {
        let giver = ALL.iter().find(|e| e.info.gives.contains(*one)).map(|e| e.info.name);
        givers.extend(giver.filter(|g| !givers.contains(g)));
    }
    if givers.is_empty() { d } else { d.help(format!("run `{},{}`", givers.join(","), info.name)) }
}

fn unknown(name: &str, span: Span) -> Diagnostic {
    let passes: Vec<&str> = ALL.iter().map(|e| e.info.name).collect();
    let named: Vec<&str> = PIPELINES.iter().map(|p| p.0).collect();
    let d = Diagnostic::error("E902", format!("unknown pass `{name}`"))
        .primary(span, "neither a pass nor a pipeline")
        .note(format!("passes: {}; pipelines: {}", passes.join(", "), named.join(", ")));
    match nearest(name, passes.iter().chain(&named).copied()) {
        Some(n) => d.help(format!("did you mean `{n}`?")),
        None => d,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    file: FileId,
}

impl<'a> Reader<'a> {
    fn span(&self, start: usize, end: usize) -> Span {
        if self.file == Span::NONE.file { Span::NONE } else { Span::new(self.file, start, end) }
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes `c` if it comes next.
    fn take(&mut self, c: char) -> bool {
        self.blanks();
        let hit = self.text[self.at..].starts_with(c);
        self.at += if hit { c.len_utf8() } else { 0 };
        hit
    }

    /// Takes the next word, which may be empty.
    fn word(&mut self) -> (&'a str, Span) {
        self.blanks();
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| !(c.is_alphanumeric() || "_-.+".contains(c))).unwrap_or(rest.len());
        let start = self.at;
        self.at += len;
        (&rest[..len], self.span(start, self.at))
    }

    /// Returns the error for text that stands where `what` was expected.
    fn wanted(&mut self, what: &str) -> Diagnostic {
        self.blanks();
        let next = self.text[self.at..].chars().next();
        let end = self.at + next.map_or(0, char::len_utf8);
        let got = next.map_or("the end".into(), |c| format!("`{c}`"));
        Diagnostic::error("E903", format!("invalid pipeline: expected {what}, found {got}"))
            .primary(self.span(self.at, end), format!("expected {what}"))
            .help("write a pipeline as `pass,pass{option=value},pass`")
    }

    fn pipeline(&mut self, passes: &mut Vec<Box<dyn Pass>>, found: &mut Diagnostics) {
        loop {
            if let Err(d) = self.step(passes, found) {
                found.push(d);
                return;
            }
            self.blanks();
            if self.at == self.text.len() {
                return;
            }
            if !self.take(',') {
                let d = self.wanted("`,` or `{`");
                found.push(d);
                return;
            }
        }
    }

    fn step(&mut self, passes: &mut Vec<Box<dyn Pass>>, found: &mut Diagnostics) -> Result<(), Diagnostic> {
        let (name, span) = self.word();
        if name.is_empty() {
            return Err(self.wanted("the name of a pass"));
        }
        let entry = ALL.iter().find(|e| e.info.name == name);
        let named = PIPELINES.iter().find(|p| p.0 == name);
        if entry.is_none() && named.is_none() {
            found.push(unknown(name, span));
        }
        let mut options = Options::none();
        if self.take('{') {
            while !self.take('}') {
                let key = self.word();
                if key.0.is_empty() {
                    return Err(self.wanted("the name of an option or `}`"));
                }
                if !self.take('=') {
                    return Err(self.wanted("`=` and a value"));
                }
                let value = self.word();
                if value.0.is_empty() {
                    return Err(self.wanted("a value"));
                }
                match entry {
                    Some(e) => {
                        if let Err(d) = options.set(e.info, key, value) {
                            found.push(d);
                        }
                    }
                    None if named.is_some() => found.push(
                        Diagnostic::error("E904", format!("pipeline `{name}` has no option `{}`", key.0))
                            .primary(key.1, "a pipeline has no options, only its passes have")
                            .help(format!("write the passes out: `{}`", named.map_or("", |p| p.1))),
                    ),
                    None => {}
                }
                if !self.take(',') && !self.text[self.at..].trim_start().starts_with('}') {
                    return Err(self.wanted("`,` or `}`"));
                }
            }
        }
        if let Some(e) = entry {
            passes.push((e.make)(&options));
        } else if let Some((_, text)) = named {
            Reader { text, at: 0, file: Span::NONE.file }.pipeline(passes, found);
        }
        Ok(())
    }
}
