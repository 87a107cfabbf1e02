//! Interpreter: executes algorithms, over any domain of executions.
//!
//! [`run`](statements::run) executes a use of an algorithm: parameters, head, statements, and the
//! algorithms that it applies; [`slices`] evaluates selections of chunks. A [`Domain`] is what an
//! execution is made of. The expansion to rounds ([`crate::expand()`]) executes every statement on
//! all ranks in step. The pass `expand` executes it once, with the rank and the steps as variables.
//! An operation of the trait exists where these two differ, and nowhere else.

pub mod slices;
pub mod statements;

use kbc_diag::{Diagnostic, Span};

use crate::ast::{AlgorithmDecl, Apply, Expr, Gens, Ident, Range, RemoteSide, Slice, Via};
use crate::evaluator::{Evaluator, Values};
use crate::library::{AlgId, CollId, Library};
use crate::options::OptionValue;
use crate::scope::{Fault, Scope};

/// Values of the variables of an `each`, with the ranks that have them.
pub type Bindings<'a, D> = Vec<(<D as Domain<'a>>::Bound, <D as Domain<'a>>::Active)>;

/// A value of a domain of executions.
pub type ValueOf<'a, D> = <<D as Domain<'a>>::Values as Values>::Value;
/// A number of a domain of executions.
pub type NumberOf<'a, D> = <<D as Domain<'a>>::Values as Values>::Number;
/// A result in a domain of executions.
pub type Outcome<'a, D, T> = Result<T, <D as Domain<'a>>::Stop>;
/// A buffer in a domain of executions.
pub type BufferOf<'a, D> = NamedBuffer<'a, <D as Domain<'a>>::Region, NumberOf<'a, D>>;

/// A buffer as an algorithm sees it.
#[derive(Clone)]
pub struct NamedBuffer<'a, R, N> {
    /// Its name in the algorithm.
    pub name: &'a str,
    /// Its places.
    pub region: R,
    /// The number of chunks that `[i]` refers to.
    pub chunks: N,
}

/// A use of an algorithm that is about to run.
pub struct Start<'a, D: Domain<'a>> {
    /// The collective.
    pub coll: CollId,
    /// The algorithm.
    pub alg: AlgId,
    /// Parameters that are given; the others have their defaults.
    pub args: Vec<(String, ValueOf<'a, D>)>,
    /// Options of the use.
    pub options: D::Options,
    /// Coordinates of the root along the axes of the algorithm.
    pub root: Option<Vec<NumberOf<'a, D>>>,
    /// The ranks on which it runs.
    pub group: D::Group,
    /// The places on which it works: one region per buffer of the collective.
    pub regions: Vec<D::Region>,
    /// The ranks and the time of the statement.
    pub at: D::Active,
    /// Location of the use.
    pub span: Span,
    /// Whether the use is an `apply`.
    pub applied: bool,
}

/// An `apply` with its collective and its algorithm.
pub struct Applied<'a> {
    /// The statement.
    pub apply: &'a Apply,
    /// The collective.
    pub coll: CollId,
    /// The algorithm.
    pub alg: AlgId,
    /// Location of the statement.
    pub span: Span,
}

/// The values of an `apply` from one point of view.
pub struct ApplySide<'a, D: Domain<'a>> {
    /// The ranks on which it runs.
    pub view: D::View,
    /// The arguments.
    pub args: Vec<(String, ValueOf<'a, D>)>,
    /// The options.
    pub options: D::Options,
    /// The root.
    pub root: Option<ValueOf<'a, D>>,
    /// The regions.
    pub regions: Vec<D::Region>,
}

/// A transfer statement.
#[derive(Clone, Copy)]
pub struct TransferStatement<'a> {
    /// True for `get`, false for `put`.
    pub get: bool,
    /// Whether the data is added.
    pub reduce: bool,
    /// The slice on this rank.
    pub here: &'a Slice,
    /// The slice on the other rank.
    pub there: &'a RemoteSide,
    /// The relays that the message passes.
    pub via: Option<&'a Via>,
    /// Location of the statement.
    pub span: Span,
}

/// The places of a transfer from one point of view.
pub struct Ends<R, P> {
    /// The places on this rank.
    pub near: R,
    /// The places on the other rank.
    pub far: R,
    /// The other rank; `None` if it is this one.
    pub peer: Option<P>,
    /// Numbers of the relays that the message passes.
    pub via: Vec<u32>,
}

/// The turns of a `for`.
pub enum Turns<L> {
    /// One after another, with these values.
    Values(std::ops::Range<i64>),
    /// The loop stays a loop.
    Loop(L),
}

/// What an `if` executes.
pub enum Split<A> {
    /// The first branch only.
    Then,
    /// The second branch only.
    Else,
    /// Both branches, the first on the first ranks, the second on the others.
    Both(A, A),
}

/// A chunk selection `index; len for gens` of one selector.
pub struct ChunkSelection<'s> {
    /// The first index.
    pub index: &'s Expr,
    /// The number of chunks; 1 if absent.
    pub len: Option<&'s Expr>,
    /// The generators.
    pub gens: Option<&'s Gens>,
    /// How an index that is out of range is reported, if the selection is checked; `None` if it
    /// wraps around. Its texts are made where they are needed.
    pub checked: Option<&'s dyn Fn() -> Checked>,
}

/// A checked selection: its text, and the change that makes it wrap around.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// The selection without brackets and without a number of parts.
    pub text: String,
    /// The number of parts as written.
    pub count: String,
    /// The place that is replaced: the word `of`, or the end of a selector that has none.
    pub place: Span,
    /// The selector.
    pub span: Span,
}

impl Checked {
    /// Makes E028 for chunks `i..i + k` of `count`, if one of them does not exist.
    pub fn fault(&self, i: i64, k: i64, count: i64) -> Option<Diagnostic> {
        if k < 1 || (i >= 0 && i.checked_add(k).is_some_and(|end| end <= count)) {
            return None;
        }
        let title = match k {
            1 => format!("chunk {i} of {count} does not exist"),
            _ => format!("chunks {i}..{} of {count} do not all exist", i.saturating_add(k)),
        };
        let bare = self.place.start == self.place.end;
        let why = if bare {
            "the index follows the axes, and one of them is declared with `of`"
        } else {
            "`of` checks the index"
        };
        let new = format!("mod {}", self.count);
        let edit = if bare { format!(" {new}") } else { "mod".to_owned() };
        Some(
            Diagnostic::error("E028", title)
                .primary(self.span, why)
                .help(format!("if the index should wrap around, write `[{} {new}]`", self.text))
                .edit(self.place, edit),
        )
    }
}

/// A domain of executions. `'a` is the lifetime of the library.
pub trait Domain<'a>: Sized {
    /// The values of expressions.
    type Values: Values;
    /// The reason why an execution stopped.
    type Stop: From<Fault> + From<<Self::Values as Values>::Stop>;
    /// One use of an algorithm on one group: its names and buffers.
    type Frame;
    /// The ranks that execute a statement, and when.
    type Active: Clone;
    /// A point of view from which an expression has one value.
    type Viewpoint: Copy;
    /// The size of a frame at the beginning of a scope.
    type Mark: Copy;
    /// What statements have made.
    type Done;
    /// A loop that stays a loop.
    type Loop;
    /// The values of the variables of an `each`.
    type Bound;
    /// Selected places.
    type Region: Clone;
    /// Places that are being selected.
    type Cut;
    /// The chunks of one selector.
    type Chunks;
    /// Another rank.
    type Peer;
    /// The ranks of an `apply` from one point of view.
    type View;
    /// What is shared by the views of one `apply`.
    type Views;
    /// The ranks of a use.
    type Group;
    /// Options of a use.
    type Options: Default;

    /// Returns the declarations.
    fn library(&self) -> &'a Library;
    /// Returns the evaluator of expressions.
    fn evaluator(&self) -> &Evaluator<'a, Self::Values>;
    /// Evaluates something from one point of view.
    ///
    /// # Errors
    /// Returns the errors of `eval`, with the point of view.
    fn on<T>(
        &self,
        f: &Self::Frame,
        here: Self::Viewpoint,
        eval: impl FnOnce(
            &Evaluator<'a, Self::Values>,
            &dyn Scope<ValueOf<'a, Self>>,
        ) -> Result<T, <Self::Values as Values>::Stop>,
    ) -> Outcome<'a, Self, T>;
    /// Adds the point of view to an error.
    fn located(&self, f: &Self::Frame, here: Self::Viewpoint, d: Fault) -> Self::Stop;

    /// Returns one point of view; `None` if no rank executes the statement.
    fn first(&self, at: &Self::Active) -> Option<Self::Viewpoint>;
    /// Counts the ranks that execute a statement.
    fn ranks(&self, at: &Self::Active) -> u64;
    /// Counts executed statements.
    ///
    /// # Errors
    /// Returns E040 above a limit.
    fn step(&mut self, count: u64, span: Span) -> Outcome<'a, Self, ()>;

    /// Returns what no statement makes.
    fn nothing(&self, at: &Self::Active) -> Self::Done;
    /// Returns the ranks and the time after something that was done.
    fn after(&self, at: &Self::Active, done: &Self::Done) -> Self::Active;
    /// Appends what the next statement made.
    fn append(&self, done: &mut Self::Done, next: Self::Done);
    /// Joins what was made side by side, by `together` or `each`.
    ///
    /// # Errors
    /// Stops if the domain has no form for it.
    fn side_by_side(
        &mut self,
        parts: Vec<Self::Done>,
        at: &Self::Active,
        span: Span,
    ) -> Outcome<'a, Self, Self::Done>;
    /// Joins what both branches of an `if` made.
    ///
    /// # Errors
    /// Stops if the domain has no form for it.
    fn branches(
        &mut self,
        parts: Vec<Self::Done>,
        at: &Self::Active,
        span: Span,
    ) -> Outcome<'a, Self, Self::Done>;
    /// Executes one of several parts side by side.
    fn beside<T>(&mut self, span: Span, index: usize, part: impl FnOnce(&mut Self) -> T) -> T;
    /// Converts the outcome of a branch that possibly no rank takes.
    ///
    /// # Errors
    /// Returns the error, except that a fault may be left to a domain that knows the ranks.
    fn maybe(&self, outcome: Outcome<'a, Self, Self::Done>, span: Span) -> Outcome<'a, Self, Self::Done>;

    /// Begins a scope.
    fn mark(&self, f: &Self::Frame) -> Self::Mark;
    /// Ends a scope: drops the names and buffers that were declared in it.
    fn release(&self, f: &mut Self::Frame, mark: Self::Mark, at: &Self::Active);
    /// Declares the name of a `let`.
    ///
    /// # Errors
    /// Returns the errors of the evaluation.
    fn define(
        &mut self,
        f: &mut Self::Frame,
        at: &Self::Active,
        name: &'a str,
        e: &Expr,
    ) -> Outcome<'a, Self, ()>;
    /// Declares a name with the same value for all.
    fn bind(&mut self, f: &mut Self::Frame, at: &Self::Active, name: &'a str, value: i64);
    /// Declares scratch.
    ///
    /// # Errors
    /// Returns the errors of the evaluation, E026 and E040, or stops if the domain has no form.
    fn scratch(
        &mut self,
        f: &mut Self::Frame,
        at: &Self::Active,
        name: &'a str,
        count: &Expr,
        span: Span,
    ) -> Outcome<'a, Self, ()>;
    /// Executes a transfer.
    ///
    /// # Errors
    /// Returns the errors of the evaluation, E020, E021, E026 and E040, or stops if the domain has
    /// no form.
    fn transfer(
        &mut self,
        f: &Self::Frame,
        at: &Self::Active,
        m: TransferStatement<'a>,
    ) -> Outcome<'a, Self, Self::Done>;

    /// Returns the turns of a `for`.
    ///
    /// # Errors
    /// Returns E025 for bounds that differ from rank to rank.
    fn turns(
        &mut self,
        f: &Self::Frame,
        at: &Self::Active,
        name: &Ident,
        range: &Range,
        body: Span,
    ) -> Outcome<'a, Self, Turns<Self::Loop>>;
    /// Enters a loop that stays a loop: declares its variable.
    fn open(&mut self, f: &mut Self::Frame, name: &Ident, l: &Self::Loop);
    /// Leaves a loop that stays a loop, with what its body made.
    fn close(&mut self, l: Self::Loop, body: Self::Done) -> Self::Done;
    /// Declares the variables of an `each` without writing out its values, if that is possible.
    /// Returns the ranks and values that execute the body.
    ///
    /// # Errors
    /// Returns the errors of the evaluation.
    fn generate(
        &mut self,
        f: &mut Self::Frame,
        at: &Self::Active,
        gens: &'a Gens,
    ) -> Outcome<'a, Self, Option<Self::Active>>;
    /// Checks whether the body of an `each` may keep its generators.
    fn keeps(&self, body: &Self::Done) -> bool;
    /// Returns all values of an `each`, with the ranks that have them.
    ///
    /// # Errors
    /// Returns the errors of the evaluation, and E040.
    fn bindings(
        &mut self,
        f: &Self::Frame,
        at: &Self::Active,
        gens: &'a Gens,
        body: Span,
    ) -> Outcome<'a, Self, Bindings<'a, Self>>;
    /// Declares the variables of an `each`.
    fn bind_all(&mut self, f: &mut Self::Frame, gens: &'a Gens, values: Self::Bound);
    /// Evaluates the condition of an `if`.
    ///
    /// # Errors
    /// Returns the errors of the evaluation.
    fn split(
        &mut self,
        f: &Self::Frame,
        at: &Self::Active,
        cond: &Expr,
    ) -> Outcome<'a, Self, Split<Self::Active>>;

    /// Returns the rank that an expression denotes.
    ///
    /// # Errors
    /// Returns the errors of the evaluation, E020 and E021.
    fn peer(&mut self, f: &Self::Frame, here: Self::Viewpoint, e: &Expr) -> Outcome<'a, Self, Self::Peer>;
    /// Returns the algorithm of a frame.
    fn decl(&self, f: &Self::Frame) -> &'a AlgorithmDecl;
    /// Returns the buffers of a frame, the collective's own first.
    fn buffers<'f>(&self, f: &'f Self::Frame) -> &'f [BufferOf<'a, Self>];
    /// Returns the number of buffers that belong to the collective.
    fn given(&self, f: &Self::Frame) -> usize;
    /// Begins a selection of places.
    fn whole(&self, region: &Self::Region) -> Self::Cut;
    /// Returns the chunks of a selector that selects all.
    fn all(&self, count: &NumberOf<'a, Self>) -> Self::Chunks;
    /// Evaluates the chunks of a selector, of `count`.
    ///
    /// # Errors
    /// Returns the errors of the evaluation, E028 and E040.
    fn chunks(
        &mut self,
        f: &Self::Frame,
        here: Self::Viewpoint,
        chosen: ChunkSelection<'_>,
        count: &NumberOf<'a, Self>,
        span: Span,
    ) -> Outcome<'a, Self, Self::Chunks>;
    /// Selects chunks of every place so far. `last` states that no selector follows.
    ///
    /// # Errors
    /// Returns E040, or stops if the domain has no form.
    fn cut(
        &mut self,
        cut: Self::Cut,
        chunks: Self::Chunks,
        count: NumberOf<'a, Self>,
        last: bool,
        span: Span,
    ) -> Outcome<'a, Self, Self::Cut>;
    /// Ends a selection of places.
    fn selected(&self, cut: Self::Cut) -> Self::Region;

    /// Records an option of an `apply`.
    ///
    /// # Errors
    /// Returns E033 for an option that has no implementation there.
    fn set_option(options: &mut Self::Options, name: &Ident, value: OptionValue) -> Outcome<'a, Self, ()>;
    /// Returns what the views of one `apply` share.
    fn views(&self) -> Self::Views;
    /// Returns the ranks of an `apply` from one point of view.
    ///
    /// # Errors
    /// Returns E020, E022 and E030, or stops if the domain has no form.
    fn view(
        &mut self,
        f: &Self::Frame,
        here: Self::Viewpoint,
        a: &'a Apply,
        callee: &'a AlgorithmDecl,
        views: &mut Self::Views,
    ) -> Outcome<'a, Self, Self::View>;
    /// Executes an `apply` on every group.
    ///
    /// # Errors
    /// Returns the errors of [`statements::apply_side`] and [`statements::run`], and those of
    /// groups that do not agree: E030 to E032.
    fn groups(
        &mut self,
        f: &Self::Frame,
        at: &Self::Active,
        applied: &Applied<'a>,
    ) -> Outcome<'a, Self, Self::Done>;
    /// Returns the sizes of a group, one per axis of its algorithm.
    fn sizes(&self, group: &Self::Group) -> Vec<i64>;
    /// Checks that a recursion ends.
    ///
    /// # Errors
    /// Returns E023.
    fn admit(&self, s: &Start<'a, Self>, args: &[(String, ValueOf<'a, Self>)]) -> Outcome<'a, Self, ()>;
    /// Begins a use: returns its frame, with the coordinates of its ranks as names.
    fn enter(
        &mut self,
        s: Start<'a, Self>,
        args: Vec<(String, ValueOf<'a, Self>)>,
        names: Vec<(&'a str, ValueOf<'a, Self>)>,
        buffers: Vec<BufferOf<'a, Self>>,
    ) -> Self::Frame;
    /// Ends a use.
    fn leave(&mut self, f: Self::Frame, done: &Self::Done);
}

/// Makes the error for a line that is cut into less than one part.
pub(crate) fn no_parts(count: i64, span: Span, label: &str) -> Diagnostic {
    Diagnostic::error("E028", format!("a buffer cannot be divided into {count} parts")).primary(span, label)
}
