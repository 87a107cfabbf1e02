//! Statements: what each form of a statement executes, the algorithms that `apply` names, and the
//! heads of algorithms.

use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};

use super::slices::slice;
use super::{
    Applied, ApplySide, Domain, Ends, NamedBuffer, Outcome, Split, Start, TransferStatement, Turns, ValueOf,
    no_parts,
};
use crate::ast::{
    AlgorithmDecl, Apply, Block, CollectiveDecl, Expr, ExprKind, Ident, RemoteSide, Stmt, StmtKind,
};
use crate::contract::block_shape;
use crate::evaluator::{Evaluator, Values};
use crate::head::{algorithm_valued, unknown_parameter};
use crate::options::option_value;
use crate::scope::{AlgRef, Fault, Scope};

/// Executes a use of an algorithm.
///
/// # Errors
/// Returns the first error in the order of the text.
pub fn run<'a, D: Domain<'a>>(d: &mut D, mut s: Start<'a, D>) -> Outcome<'a, D, D::Done> {
    let lib = d.library();
    let (decl, coll) = (lib.algorithm(s.alg), lib.collective(s.coll));
    let values = &d.evaluator().values;
    let number = |n: i64| values.of_number(values.integer(n));
    let sizes = d.sizes(&s.group);
    let mut names: Vec<(&'a str, ValueOf<'a, D>)> =
        decl.axes.iter().zip(&sizes).map(|(a, &n)| (a.size.node.as_str(), number(n))).collect();
    if let (Some((_, roots)), Some(c)) = (&decl.root, s.root.clone()) {
        match (roots.as_slice(), c.as_slice()) {
            ([one], [c]) => names.push((&one.node, values.of_number(c.clone()))),
            ([one], _) => names.push((&one.node, values.rank(c))),
            (many, _) => {
                many.iter().zip(c).for_each(|(n, c)| names.push((&n.node, values.of_number(c))));
            }
        }
    }
    let args = parameters(d, decl, &s.args, &mut names)?;
    d.admit(&s, &args)?;
    let heads = Uniform(&names);
    // The use, unless the head of the algorithm is all that there is.
    let used = (s.span != decl.head).then_some(s.span);
    let values = &d.evaluator().values;
    if let Some(e) = &decl.cond {
        let holds = d.evaluator().bool(e, &heads)?;
        match values.decide(&holds) {
            Some(true) => {}
            Some(false) => return Err(where_fails(values, decl, &names, e, used, s.applied).into()),
            None => return Err(values.undecidable("a `where` that depends on the rank", e.span).into()),
        }
    }
    let chunks = match &decl.chunks {
        Some(e) => {
            let chunks = d.evaluator().int(e, &heads)?;
            if let Some(k) = values.known(&chunks).filter(|k| *k < 1) {
                let e = no_parts(k, e.span, "`chunks` must be at least 1");
                let e = used.iter().fold(e, |e, at| e.secondary(*at, "used here"));
                return Err(Box::new(e).into());
            }
            Some(chunks)
        }
        None => None,
    };
    let ranks: i64 = sizes.iter().product();
    let regions = std::mem::take(&mut s.regions);
    let buffers = coll.buffers.iter().zip(regions).zip(block_shape(coll)).map(|((b, region), blocks)| {
        let own = || values.integer(if blocks { ranks } else { 1 });
        NamedBuffer { name: b.name.node.as_str(), region, chunks: chunks.clone().unwrap_or_else(own) }
    });
    let buffers = buffers.collect();
    let at = s.at.clone();
    let mut frame = d.enter(s, args, names, buffers);
    let done = block(d, &mut frame, &decl.body, &at)?;
    d.leave(frame, &done);
    Ok(done)
}

/// Makes the error for a `where` that does not hold.
fn where_fails<V: Values>(
    values: &V,
    decl: &AlgorithmDecl,
    names: &[(&str, V::Value)],
    cond: &Expr,
    used: Option<Span>,
    applied: bool,
) -> Fault {
    let sizes: Vec<String> = names.iter().map(|(n, v)| format!("{n} = {}", values.show(v))).collect();
    let mut d = Diagnostic::error("E024", format!("`{}` is not defined for this shape", decl.name.node))
        .primary(cond.span, format!("false for {}", sizes.join(", ")))
        .help("use another algorithm, or sizes for which the condition is true");
    if let Some(at) = used {
        d = d.secondary(at, if applied { "in this apply" } else { "used here" });
    }
    Box::new(d)
}

/// Returns all parameters with their values, and adds them to `names`.
fn parameters<'a, D: Domain<'a>>(
    d: &D,
    decl: &'a AlgorithmDecl,
    given: &[(String, ValueOf<'a, D>)],
    names: &mut Vec<(&'a str, ValueOf<'a, D>)>,
) -> Outcome<'a, D, Vec<(String, ValueOf<'a, D>)>> {
    if let Some((name, _)) = given.iter().find(|g| !decl.params.iter().any(|p| p.0.node == g.0)) {
        let at = Ident::new(name.clone(), decl.head);
        return Err(Box::new(unknown_parameter(decl, &at)).into());
    }
    let values = &d.evaluator().values;
    let mut args = vec![];
    for ((name, default), is_alg) in decl.params.iter().zip(algorithm_valued(decl, d.library())) {
        let v = match given.iter().find(|g| g.0 == name.node) {
            Some((_, v)) => {
                if values.as_algorithm(v).is_some() != is_alg {
                    let kind = if is_alg { "an algorithm" } else { "a number" };
                    let e = Diagnostic::error("E006", format!("parameter `{}` must be {kind}", name.node))
                        .primary(name.span, format!("this is {}", values.show(v)));
                    return Err(Box::new(e).into());
                }
                v.clone()
            }
            None => argument(d.evaluator(), default, is_alg, &Uniform(names))?,
        };
        names.push((&name.node, v.clone()));
        args.push((name.node.clone(), v));
    }
    Ok(args)
}

/// Returns the value of an argument: an algorithm, if the parameter is algorithm-valued, and
/// otherwise the value of the expression.
fn argument<V: Values>(
    eval: &Evaluator<'_, V>,
    e: &Expr,
    is_alg: bool,
    scope: &dyn Scope<V::Value>,
) -> Result<V::Value, V::Stop> {
    match &e.kind {
        ExprKind::Name(n) if is_alg => Ok(scope.lookup(n).unwrap_or_else(|| {
            eval.values.algorithm(Arc::new(AlgRef { name: n.clone(), file: e.span.file }))
        })),
        _ => eval.eval(e, scope),
    }
}

/// Scope of the names that have the same value on all ranks.
struct Uniform<'a, V>(&'a [(&'a str, V)]);

impl<V: Clone> Scope<V> for Uniform<'_, V> {
    fn lookup(&self, name: &str) -> Option<V> {
        self.0.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| v.clone())
    }
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(n, _)| (*n).to_owned()).collect()
    }
}

/// Executes a block.
fn block<'a, D: Domain<'a>>(
    d: &mut D,
    f: &mut D::Frame,
    b: &'a Block,
    at: &D::Active,
) -> Outcome<'a, D, D::Done> {
    let mark = d.mark(f);
    let done = if b.together {
        let mut parts = Vec::with_capacity(b.stmts.len());
        for (i, s) in b.stmts.iter().enumerate() {
            parts.push(d.beside(b.span, i, |d| stmt(d, f, s, at))?);
        }
        d.side_by_side(parts, at, b.span)?
    } else {
        let mut all = d.nothing(at);
        for s in &b.stmts {
            let next = stmt(d, f, s, &d.after(at, &all))?;
            d.append(&mut all, next);
        }
        all
    };
    d.release(f, mark, at);
    Ok(done)
}

fn stmt<'a, D: Domain<'a>>(
    d: &mut D,
    f: &mut D::Frame,
    s: &'a Stmt,
    at: &D::Active,
) -> Outcome<'a, D, D::Done> {
    d.step(d.ranks(at).max(1), s.span)?;
    match &s.kind {
        StmtKind::Error => Ok(d.nothing(at)),
        StmtKind::Let(name, e) => {
            d.define(f, at, &name.node, e)?;
            Ok(d.nothing(at))
        }
        StmtKind::Scratch(name, count) => {
            d.scratch(f, at, &name.node, count, s.span)?;
            Ok(d.nothing(at))
        }
        StmtKind::Move { get, here, there, via, reduce } => {
            let (get, reduce, via, span) = (*get, *reduce, via.as_ref(), s.span);
            d.transfer(f, at, TransferStatement { get, reduce, here, there, via, span })
        }
        StmtKind::For(name, range, b) => match d.turns(f, at, name, range, b.span)? {
            Turns::Values(turns) => {
                let mut all = d.nothing(at);
                for i in turns {
                    d.step(1, range.hi.span)?;
                    let mark = d.mark(f);
                    let now = d.after(at, &all);
                    d.bind(f, &now, &name.node, i);
                    let next = block(d, f, b, &now)?;
                    d.append(&mut all, next);
                    d.release(f, mark, at);
                }
                Ok(all)
            }
            Turns::Loop(l) => {
                let mark = d.mark(f);
                d.open(f, name, &l);
                let body = block(d, f, b, at)?;
                d.release(f, mark, at);
                Ok(d.close(l, body))
            }
        },
        StmtKind::Each(gens, b) => {
            let mark = d.mark(f);
            if let Some(inside) = d.generate(f, at, gens)? {
                let body = block(d, f, b, &inside)?;
                d.release(f, mark, at);
                if d.keeps(&body) {
                    return Ok(body);
                }
            }
            let mut parts = vec![];
            for (i, (values, there)) in d.bindings(f, at, gens, b.span)?.into_iter().enumerate() {
                d.bind_all(f, gens, values);
                parts.push(d.beside(s.span, i, |d| block(d, f, b, &there))?);
                d.release(f, mark, &there);
            }
            d.side_by_side(parts, at, b.span)
        }
        StmtKind::If(cond, then, other) => match (d.split(f, at, cond)?, other) {
            (Split::Then, _) => block(d, f, then, at),
            (Split::Else, Some(b)) => block(d, f, b, at),
            (Split::Else, None) => Ok(d.nothing(at)),
            (Split::Both(yes, no), other) => {
                let done = block(d, f, then, &yes);
                let mut parts = vec![d.maybe(done, then.span)?];
                if let Some(b) = other {
                    let done = block(d, f, b, &no);
                    parts.push(d.maybe(done, b.span)?);
                }
                d.branches(parts, at, s.span)
            }
        },
        StmtKind::Block(b) => block(d, f, b, at),
        StmtKind::Apply(a) => apply(d, f, a, s.span, at),
    }
}

/// Evaluates the places of a transfer from one point of view.
///
/// # Errors
/// Returns the errors of the evaluation.
pub fn ends<'a, D: Domain<'a>>(
    d: &mut D,
    f: &D::Frame,
    here: D::Viewpoint,
    m: TransferStatement<'a>,
) -> Outcome<'a, D, Ends<D::Region, D::Peer>> {
    let near = slice(d, f, here, m.here)?;
    let (far, peer) = match m.there {
        RemoteSide::Rank(e) => (near.clone(), Some(e)),
        RemoteSide::Slice(s, e) => (slice(d, f, here, s)?, e.as_ref()),
    };
    let peer = match peer {
        Some(e) => Some(d.peer(f, here, e)?),
        None => None,
    };
    let via = match m.via {
        Some(via) => d.on(f, here, |eval, scope| eval.relays(via, scope))?,
        None => vec![],
    };
    Ok(Ends { near, far, peer, via })
}

fn apply<'a, D: Domain<'a>>(
    d: &mut D,
    f: &D::Frame,
    a: &'a Apply,
    span: Span,
    at: &D::Active,
) -> Outcome<'a, D, D::Done> {
    let Some(here) = d.first(at) else { return Ok(d.nothing(at)) };
    let lib = d.library();
    let coll = lib.find_collective(a.coll.span.file, &a.coll.node, a.coll.span)?;
    let named = d.on(f, here, |eval, scope| {
        Ok(scope.lookup(&a.alg.node).and_then(|v| eval.values.as_algorithm(&v)))
    })?;
    let named = named.unwrap_or_else(|| Arc::new(AlgRef { name: a.alg.node.clone(), file: a.alg.span.file }));
    let alg =
        lib.find_algorithm(named.file, coll, &named.name, a.alg.span).map_err(|e| d.located(f, here, e))?;
    let contract = lib.collective(coll);
    root_fits(contract, a.root.is_some(), span).map_err(|e| d.located(f, here, e))?;
    if contract.buffers.len() != 1 + usize::from(a.to.is_some()) {
        let title = format!(
            "`{}` works on {} buffers, and another number is given",
            a.coll.node,
            contract.buffers.len()
        );
        let e = Diagnostic::error("E027", title)
            .primary(a.on.span, "wrong number of buffers")
            .help("write `on S` for one buffer, `on S -> T` for two");
        return Err(d.located(f, here, Box::new(e)));
    }
    d.groups(f, at, &Applied { apply: a, coll, alg, span })
}

/// Evaluates an `apply` from one point of view.
///
/// # Errors
/// Returns E006 for an unknown parameter or a wrong option, and the errors of the evaluation.
pub fn apply_side<'a, D: Domain<'a>>(
    d: &mut D,
    f: &D::Frame,
    here: D::Viewpoint,
    applied: &Applied<'a>,
    views: &mut D::Views,
) -> Outcome<'a, D, ApplySide<'a, D>> {
    let a = applied.apply;
    let callee = d.library().algorithm(applied.alg);
    let view = d.view(f, here, a, callee, views)?;
    let is_alg = algorithm_valued(callee, d.library());
    let (mut args, mut options) = (vec![], D::Options::default());
    for (name, value) in &a.options {
        let v = d.on(f, here, |eval, scope| option_value(name, value, eval, scope))?;
        D::set_option(&mut options, name, v)?;
    }
    for (name, value) in &a.args {
        let Some(i) = callee.params.iter().position(|p| p.0.node == name.node) else {
            return Err(d.located(f, here, Box::new(unknown_parameter(callee, name))));
        };
        let v = d.on(f, here, |eval, scope| argument(eval, value, is_alg[i], scope))?;
        args.push((name.node.clone(), v));
    }
    let root = match &a.root {
        Some(r) => Some(d.on(f, here, |eval, scope| eval.eval(&r.rank, scope))?),
        None => None,
    };
    let mut regions = vec![slice(d, f, here, &a.on)?];
    if let Some(to) = &a.to {
        regions.push(slice(d, f, here, to)?);
    }
    Ok(ApplySide { view, args, options, root, regions })
}

/// Checks that a root is given if and only if the collective has one (E029).
pub(crate) fn root_fits(coll: &CollectiveDecl, given: bool, span: Span) -> Result<(), Fault> {
    let name = &coll.name.node;
    let d = match (&coll.root, given) {
        (Some((from, _)), false) => Diagnostic::error("E029", format!("`{name}` needs a root"))
            .primary(span, "the root is missing here")
            .help(format!("write `{name} {} RANK`", if *from { "from" } else { "to" })),
        (None, true) => Diagnostic::error("E029", format!("`{name}` takes no root"))
            .primary(span, "a root is given here")
            .help("remove the root"),
        _ => return Ok(()),
    };
    Err(Box::new(d))
}
