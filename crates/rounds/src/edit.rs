//! Small numbered edits of an algorithm, which `repair` tries.
//!
//! This module owns the list of edits and their descriptions. A walk over the tree counts the
//! possible edits and performs the one with the given number, so the list is never stored.

use kbc_diag::{Span, Spanned};

use crate::ast::{
    AlgorithmDecl, BinaryOp, Block, Expr, ExprKind, Gens, PartCount, Range, RemoteSide, Selector,
    SelectorKind, Slice, Stmt, StmtKind, UnaryOp, ViewKind,
};
use crate::write;

/// An edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// Location in the original text.
    pub span: Span,
    /// What to write, as an imperative sentence.
    pub text: String,
    /// Distance from the original text; `repair` prefers the smallest.
    pub rank: u8,
}

/// Distance ([`Edit::rank`]) of an edit that no author would write.
pub(crate) const RIDDLE: u8 = 9;

/// Greatest number of names that are tried in place of a name. Only the nearest are tried, so that
/// a walk is linear in the length of the text.
const MAX_NAMES: usize = 16;

/// Performs the edit with this number; returns none if there are fewer edits.
pub fn edit(decl: &mut AlgorithmDecl, number: usize) -> Option<Edit> {
    let mut names: Vec<String> = decl.axes.iter().map(|a| a.coord.node.clone()).collect();
    names.extend(decl.axes.iter().map(|a| a.size.node.clone()));
    if let Some((_, root)) = &decl.root {
        names.extend(root.iter().map(|r| r.node.clone()));
    }
    names.extend(decl.params.iter().map(|p| p.0.node.clone()));
    let axes = decl.axes.iter().map(|a| a.coord.node.clone()).collect();
    let sizes = decl.axes.iter().map(|a| a.size.node.clone()).collect();
    let parts = decl
        .axes
        .iter()
        .map(|a| {
            let name = |i: &Spanned<String>| Expr { kind: ExprKind::Name(i.node.clone()), span: i.span };
            let of = Some(PartCount { n: name(&a.size), wraps: false, word_span: a.size.span });
            Selector {
                kind: SelectorKind::Part { index: name(&a.coord), len: None, gens: None, of },
                span: a.coord.span,
            }
        })
        .collect();
    let mut walk = Walk { left: number, done: None, names, axes, sizes, parts };
    walk.block(&mut decl.body);
    for a in &mut decl.axes {
        let span = a.coord.span.to(a.size.span);
        let words =
            |wraps: bool| format!("{} {} {}", a.coord.node, if wraps { "mod" } else { "of" }, a.size.node);
        if walk.offer() {
            walk.done = Some(Edit { span, text: instead(&words(!a.wraps), &words(a.wraps)), rank: 1 });
            a.wraps = !a.wraps;
        }
    }
    walk.done
}

/// Checks whether a location lies within another.
pub(crate) fn within(outer: Span, inner: Span) -> bool {
    outer.file == inner.file && outer.start <= inner.start && inner.end <= outer.end
}

fn instead(new: &str, old: &str) -> String {
    format!("write `{new}` instead of `{old}`")
}

struct Walk {
    left: usize,
    done: Option<Edit>,
    /// Integer-valued names in scope.
    names: Vec<String>,
    axes: Vec<String>,
    sizes: Vec<String>,
    /// The rank's own part of the whole region: `[x of w]`.
    parts: Vec<Selector>,
}

impl Walk {
    /// Counts a possible edit and checks whether it is the one to perform.
    fn offer(&mut self) -> bool {
        if self.done.is_some() {
            return false;
        }
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        false
    }

    fn make(&mut self, span: Span, text: impl Into<String>, rank: u8) {
        self.done = Some(Edit { span, text: text.into(), rank });
    }

    fn block(&mut self, b: &mut Block) {
        let names = self.names.len();
        for s in &mut b.stmts {
            self.stmt(s);
        }
        self.names.truncate(names);
        if b.stmts.len() > 1 && self.offer() {
            b.together = !b.together;
            let text = if b.together { "write `together { .. }`" } else { "remove `together`" };
            self.make(b.stmts[0].span, text, 2);
        }
        for i in 0..b.stmts.len() {
            let moves =
                matches!(b.stmts[i].kind, StmtKind::Move { .. } | StmtKind::Apply(_) | StmtKind::For(..));
            if moves && b.stmts.len() > 1 && self.offer() {
                let s = b.stmts.remove(i);
                self.make(s.span, "remove this statement", 3);
                return;
            }
            if i > 0 && self.offer() {
                b.stmts.swap(i - 1, i);
                self.make(b.stmts[i - 1].span, "move this statement before the one above it", 2);
                return;
            }
        }
    }

    fn stmt(&mut self, s: &mut Stmt) {
        let span = s.span;
        match &mut s.kind {
            StmtKind::Error | StmtKind::Scratch(..) => {}
            StmtKind::Let(name, e) => {
                self.number(e);
                self.names.push(name.node.clone());
            }
            StmtKind::Move { get, here, there, via: _, reduce } => {
                self.slice(here);
                if let RemoteSide::Rank(peer) | RemoteSide::Slice(_, Some(peer)) = &*there {
                    self.peers(here, peer);
                }
                match there {
                    RemoteSide::Rank(e) => self.number(e),
                    RemoteSide::Slice(s, e) => {
                        self.slice(s);
                        e.iter_mut().for_each(|e| self.number(e));
                    }
                }
                if self.offer() {
                    *reduce = !*reduce;
                    self.make(span, if *reduce { "add `reduce`" } else { "remove `reduce`" }, 0);
                }
                if self.offer() {
                    *get = !*get;
                    let text = if *get {
                        "write `get .. <- ..` instead of `put`"
                    } else {
                        "write `put .. -> ..` instead of `get`"
                    };
                    self.make(span, text, 2);
                }
            }
            StmtKind::For(name, range, b) => {
                self.range(range);
                let names = self.names.len();
                self.names.push(name.node.clone());
                self.block(b);
                self.names.truncate(names);
                if self.offer() {
                    let gens = Gens { vars: vec![(name.clone(), range.clone())], cond: None };
                    let text = format!("write `each {}` instead of `for {0}`", name.node);
                    let at = name.span;
                    s.kind = StmtKind::Each(gens, b.clone());
                    self.make(at, text, 2);
                }
            }
            StmtKind::Each(gens, b) => {
                let names = self.names.len();
                self.gens(gens);
                self.block(b);
                self.names.truncate(names);
                if let ([(name, range)], None) = (gens.vars.as_slice(), &gens.cond)
                    && self.offer()
                {
                    let text = format!("write `for {}` instead of `each {0}`", name.node);
                    let (at, new) = (name.span, StmtKind::For(name.clone(), range.clone(), b.clone()));
                    s.kind = new;
                    self.make(at, text, 1);
                }
            }
            StmtKind::If(c, a, b) => {
                self.inside(c);
                self.block(a);
                b.iter_mut().for_each(|b| self.block(b));
                if b.is_none() && self.offer() {
                    let at = c.span;
                    s.kind = StmtKind::Block(a.clone());
                    self.make(at, "remove the condition", 1);
                }
            }
            StmtKind::Block(b) => self.block(b),
            StmtKind::Apply(a) => {
                if let Some(r) = &mut a.root {
                    self.number(&mut r.rank);
                }
                self.slice(&mut a.on);
                a.to.iter_mut().for_each(|s| self.slice(s));
                a.args.iter_mut().for_each(|(_, e)| self.inside(e));
                for coll in ["all_reduce", "reduce_scatter", "all_gather"] {
                    if a.root.is_none() && a.to.is_none() && a.coll.node != coll && self.offer() {
                        let text = instead(coll, &a.coll.node);
                        self.make(a.coll.span, text, 2);
                        a.coll.node = coll.into();
                    }
                }
                if let ([all], None) = (a.on.selectors.as_mut_slice(), &a.to)
                    && all.kind == SelectorKind::All
                {
                    for (part, (axis, size)) in
                        self.parts.clone().into_iter().zip(self.axes.clone().iter().zip(self.sizes.clone()))
                    {
                        if self.offer() {
                            self.make(all.span, instead(&format!("[{axis} of {size}]"), "[..]"), 1);
                            all.kind = part.kind;
                            break;
                        }
                    }
                }
                if let ViewKind::Axes(list) = &mut a.view.kind {
                    self.axes(list, a.view.span);
                }
            }
        }
    }

    fn axes(&mut self, list: &mut [Spanned<String>], span: Span) {
        for i in 0..list.len() {
            for other in self.axes.clone() {
                if list[i].node != other && !list.iter().any(|l| l.node == other) && self.offer() {
                    let text = format!("write `over {other}` instead of `over {}`", list[i].node);
                    self.make(list[i].span, text, 0);
                    list[i].node = other;
                }
            }
        }
        if list.len() == 2 && self.offer() {
            list.swap(0, 1);
            self.make(
                span,
                instead(
                    &format!("({}, {})", list[0].node, list[1].node),
                    "write the axes in the other order",
                ),
                2,
            );
        }
    }

    fn slice(&mut self, s: &mut Slice) {
        for selector in &mut s.selectors {
            let SelectorKind::Part { index, len, gens, of } = &mut selector.kind else { continue };
            let names = self.names.len();
            gens.iter_mut().for_each(|g| self.gens(g));
            self.number(index);
            self.names.truncate(names);
            len.iter_mut().for_each(|e| self.number(e));
            if let Some(of) = of {
                let before = self.done.is_some();
                self.number(&mut of.n);
                if let (false, Some(done)) = (before, &mut self.done) {
                    done.rank += 3;
                }
            }
        }
        if let [one] = s.selectors.as_mut_slice()
            && one.kind != SelectorKind::All
            && self.offer()
        {
            one.kind = SelectorKind::All;
            self.make(one.span, "write `[..]`, which selects all chunks", 2);
        }
    }

    /// Replaces the rank's own chunk index by that of the peer.
    fn peers(&mut self, s: &mut Slice, peer: &Expr) {
        let [own] = self.axes.as_slice() else { return };
        let own = own.clone();
        for selector in &mut s.selectors {
            let SelectorKind::Part { index, .. } = &mut selector.kind else { continue };
            let new = with(index, &own, peer);
            if new != *index && self.offer() {
                self.make(index.span, instead(&write::expr(&new), &write::expr(index)), 1);
                *index = new;
            }
        }
    }

    fn gens(&mut self, g: &mut Gens) {
        for (name, range) in &mut g.vars {
            self.range(range);
            self.names.push(name.node.clone());
        }
        g.cond.iter_mut().for_each(|c| self.inside(c));
    }

    fn range(&mut self, r: &mut Range) {
        let (lo, hi) = (write::expr(&r.lo), write::expr(&r.hi));
        let span = r.lo.span.to(r.hi.span);
        // Both bounds off by one are a single mistake.
        for by in [1, -1] {
            let below = matches!(shifted(&r.lo, by).kind, ExprKind::Int(..0));
            if !below && self.offer() {
                (r.lo, r.hi) = (shifted(&r.lo, by), shifted(&r.hi, by));
                let new = format!("{}..{}", write::expr(&r.lo), write::expr(&r.hi));
                self.make(span, instead(&new, &format!("{lo}..{hi}")), 1);
            }
        }
        for bound in [&mut r.lo, &mut r.hi] {
            self.one_more(bound);
            self.inside(bound);
        }
        if let Some(done) = &mut self.done
            && within(span, done.span)
            && (write::expr(&r.lo), write::expr(&r.hi)) != (lo.clone(), hi.clone())
        {
            // One bound without the other would be hard to read in a message.
            let new = format!("{}..{}", write::expr(&r.lo), write::expr(&r.hi));
            done.text = instead(&new, &format!("{lo}..{hi}"));
            done.span = span;
        }
    }

    /// Edits an index, a rank or a bound; also by plus and minus one.
    fn number(&mut self, e: &mut Expr) {
        self.one_more(e);
        let old = e.clone();
        self.change(e, true);
        self.words(&old, e);
    }

    fn one_more(&mut self, e: &mut Expr) {
        if matches!(e.kind, ExprKind::Tuple(_)) {
            return;
        }
        for by in [1, -1] {
            let new = shifted(e, by);
            if !matches!(new.kind, ExprKind::Int(..0)) && self.offer() {
                let rank = if matches!(e.kind, ExprKind::Call(..)) { 1 } else { 0 };
                self.make(e.span, instead(&write::expr(&new), &write::expr(e)), rank);
                *e = new;
            }
        }
    }

    /// Edits a condition or an argument.
    fn inside(&mut self, e: &mut Expr) {
        let old = e.clone();
        self.change(e, false);
        self.words(&old, e);
    }

    /// Describes an edit by the whole expression, because a single operator would be hard to read.
    fn words(&mut self, old: &Expr, new: &Expr) {
        if let Some(done) = &mut self.done
            && done.text.is_empty()
        {
            done.span = old.span;
            done.text = instead(&write::expr(new), &write::expr(old));
        }
    }

    fn change(&mut self, e: &mut Expr, top: bool) {
        let span = e.span;
        match &mut e.kind {
            ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Error => {}
            ExprKind::Int(i) => {
                for by in [1, -1] {
                    if !top && *i + by >= 0 && self.offer() {
                        *i += by;
                        self.make(span, "", 1);
                        return;
                    }
                }
            }
            ExprKind::Name(n) => {
                for i in self.names.len().saturating_sub(MAX_NAMES)..self.names.len() {
                    if *n != self.names[i] && self.offer() {
                        let other = &self.names[i];
                        // A size is seldom written where a coordinate is meant, or the reverse.
                        let rank = if self.sizes.contains(n) == self.sizes.contains(other) { 2 } else { 4 };
                        n.clone_from(other);
                        self.make(span, "", rank);
                        return;
                    }
                }
            }
            ExprKind::Call(f, args) => {
                let other = match f.node.as_str() {
                    "log2" => Some("ceil_log2"),
                    "ceil_log2" => Some("log2"),
                    "min" => Some("max"),
                    "max" => Some("min"),
                    _ => None,
                };
                if let Some(other) = other
                    && self.offer()
                {
                    f.node = other.into();
                    self.make(span, "", 0);
                    return;
                }
                args.iter_mut().for_each(|a| self.change(a, false));
            }
            ExprKind::Tuple(parts) => parts.iter_mut().for_each(|p| self.number(p)),
            ExprKind::Unary(op, a) => {
                if *op == UnaryOp::Neg && self.offer() {
                    *e = (**a).clone();
                    self.make(span, "", 0);
                    return;
                }
                self.change(a, false);
            }
            ExprKind::Binary(op, a, b) => {
                let others: &[BinaryOp] = match op {
                    BinaryOp::Add => &[BinaryOp::Sub, BinaryOp::BitXor],
                    BinaryOp::Sub => &[BinaryOp::Add],
                    BinaryOp::BitXor => &[BinaryOp::Add, BinaryOp::Sub],
                    BinaryOp::Lt => &[BinaryOp::Le, BinaryOp::Ge],
                    BinaryOp::Le => &[BinaryOp::Lt, BinaryOp::Gt],
                    BinaryOp::Gt => &[BinaryOp::Ge, BinaryOp::Le],
                    BinaryOp::Ge => &[BinaryOp::Gt, BinaryOp::Lt],
                    BinaryOp::Eq => &[BinaryOp::Ne],
                    BinaryOp::Ne => &[BinaryOp::Eq],
                    BinaryOp::Div => &[BinaryOp::Rem],
                    BinaryOp::Rem => &[BinaryOp::Div],
                    _ => &[],
                };
                let int = matches!(b.kind, ExprKind::Int(_));
                let sum = matches!(op, BinaryOp::Add | BinaryOp::Sub);
                // `p - 1` is hardly ever meant to be `p + 1`, but a step `r - 1` may be one in the
                // wrong direction.
                for other in others.iter().filter(|_| top || !(int && sum)) {
                    if self.offer() {
                        *op = *other;
                        let always = *other == BinaryOp::Ge && matches!(b.kind, ExprKind::Int(0));
                        self.make(span, "", if always { 3 } else { 0 });
                        return;
                    }
                }
                if sum && !int && self.offer() {
                    *e = (**a).clone();
                    self.make(span, "", 1);
                    return;
                }
                // The edits of the whole expression already give `r - 0` and `r - 2` for `r - 1`.
                let before = self.done.is_some();
                self.change(a, false);
                if !(top && sum && int) {
                    self.change(b, false);
                }
                // An edit to `d / d` would be incomprehensible.
                if let (false, true, Some(done)) = (before, a.kind == b.kind, &mut self.done) {
                    done.rank = RIDDLE;
                }
            }
            ExprKind::If(c, a, b) => {
                self.change(c, false);
                self.change(a, false);
                self.change(b, false);
            }
            ExprKind::Let(lets, e) => {
                lets.iter_mut().for_each(|l| self.change(&mut l.1, false));
                self.change(e, false);
            }
            ExprKind::Fold(_, e, gens) => {
                self.change(e, false);
                for (_, range) in &mut gens.vars {
                    self.change(&mut range.lo, false);
                    self.change(&mut range.hi, false);
                }
                gens.cond.iter_mut().for_each(|c| self.change(c, false));
            }
        }
    }
}

/// Returns an expression with a name replaced by another expression.
fn with(e: &Expr, name: &str, new: &Expr) -> Expr {
    let kind = match &e.kind {
        ExprKind::Name(n) if n == name => return new.clone(),
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, Box::new(with(a, name, new))),
        ExprKind::Binary(op, a, b) => {
            ExprKind::Binary(*op, Box::new(with(a, name, new)), Box::new(with(b, name, new)))
        }
        ExprKind::Call(f, args) => {
            ExprKind::Call(f.clone(), args.iter().map(|a| with(a, name, new)).collect())
        }
        // An edit of a part that declares names of its own would be hard to read.
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Name(_)
        | ExprKind::Tuple(_)
        | ExprKind::If(..)
        | ExprKind::Let(..)
        | ExprKind::Fold(..)
        | ExprKind::Error => e.kind.clone(),
    };
    Expr { kind, span: e.span }
}

/// Returns an expression plus a small number, in its usual form.
fn shifted(e: &Expr, by: i64) -> Expr {
    let plus = |a: &Expr, k: i64| match k {
        0 => a.clone(),
        _ => {
            let op = if k > 0 { BinaryOp::Add } else { BinaryOp::Sub };
            let int = Expr { kind: ExprKind::Int(k.abs()), span: e.span };
            Expr { kind: ExprKind::Binary(op, Box::new(a.clone()), Box::new(int)), span: e.span }
        }
    };
    match &e.kind {
        ExprKind::Int(i) => Expr { kind: ExprKind::Int(i.saturating_add(by)), span: e.span },
        ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => match b.kind {
            ExprKind::Int(k) => {
                let k = if *op == BinaryOp::Add { k } else { k.saturating_neg() };
                plus(a, k.saturating_add(by))
            }
            // One less than `r + 1 - s` is `r - s`.
            _ => match a.kind {
                ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, _, ref k)
                    if matches!(k.kind, ExprKind::Int(_)) =>
                {
                    Expr { kind: ExprKind::Binary(*op, Box::new(shifted(a, by)), b.clone()), span: e.span }
                }
                _ => plus(e, by),
            },
        },
        _ => plus(e, by),
    }
}
