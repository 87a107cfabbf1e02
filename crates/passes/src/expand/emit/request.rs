//! Requests: a collective that is to be expanded, with its arguments and options, and what every
//! form of its expansion computes from them.

use crate::expand::interpret::{Mover, Options, Sym, refused};
use crate::order::choose::{self, OneSlotCache};
use crate::packed::PackedUse;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::cut::Sized;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::*;
use kbc_ir::types::{DType, MemKind, ReduceOp};
use kbc_rounds::ast::Ident;
use kbc_rounds::head::unknown_parameter;
use kbc_rounds::library::{AlgId, CollId, Library};
use kbc_rounds::options::{OPTIONS, OptionKind, OptionValue, option_kind};
use kbc_rounds::rounds::{Call, Rounds, coordinates};
use kbc_rounds::scope::{AlgRef, Value, unknown};
use std::sync::Arc;

/// An argument of a use.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An integer.
    Int(i64),
    /// The name of an algorithm, or the word of an option.
    Word(String),
}

/// A collective to be expanded.
pub struct Request<'a> {
    /// The declarations.
    pub lib: &'a Library,
    /// The trees of the use, if the algorithm is packed.
    pub trees: Option<&'a PackedUse>,
    /// The collective.
    pub coll: CollId,
    /// The algorithm.
    pub alg: AlgId,
    /// Its name as the use writes it, with a namespace if it has one.
    pub written: &'a str,
    /// Arguments of the algorithm.
    pub args: &'a [(String, Arg)],
    /// Options of the use.
    pub options: &'a [(String, Arg)],
    /// The combiner.
    pub red: ReduceOp,
    /// The root as a linear index.
    pub root: Option<u64>,
    /// The mesh axes over which it runs.
    pub over: Vec<Name>,
    /// Sizes of the coordinate system: one for each part of the axis, or the whole axis.
    pub sizes: Vec<u64>,
    /// Buffers with their lines, in the order of the collective's declaration.
    pub operands: Vec<(BufferId, Line)>,
    /// Largest extent and unit of each line over all ranks.
    pub largest: Vec<(u64, u64)>,
    /// Name of the region.
    pub name: Name,
    /// Its source location.
    pub span: Span,
    /// Whether its messages will go through queues, because the machine has them.
    pub queues: bool,
    /// Results about algorithms that are known so far.
    pub known: &'a OneSlotCache,
}

impl Request<'_> {
    /// Checks whether one slot per message needs no credit. `rounds` are those of the request, if
    /// they are known.
    pub(in crate::expand) fn one_slot(&self, rounds: Option<&Rounds>) -> bool {
        let call = Call { root: None, ..call(self) };
        let find = || choose::one_slot(self.lib, call.alg, &call.sizes, &call.args, rounds);
        match self.trees {
            // The tables of packed trees are not in the call.
            Some(trees) => trees.one_slot(&call, find),
            None => self.known.one_slot(&call, find),
        }
    }
}

/// Returns the use as a call for the evaluation to rounds.
pub(in crate::expand) fn call(r: &Request<'_>) -> Call {
    let sizes: Vec<i64> = r.sizes.iter().map(|s| *s as i64).collect();
    let value = |v: &Arg| match v {
        Arg::Int(i) => Value::Int(*i),
        Arg::Word(w) => Value::Alg(Arc::new(AlgRef { name: w.clone(), file: r.span.file })),
    };
    let args = r.args.iter().map(|(n, v)| (n.clone(), value(v))).collect();
    let root = r.root.map(|c| coordinates(&sizes, c as i64));
    Call { alg: r.alg, sizes, root, args }
}

/// Returns the arguments of a request as values, and its options.
///
/// # Errors
/// Returns E006 for an unknown name, or for a value that the option cannot have; E033 for an option
/// without an implementation.
pub(in crate::expand) fn split(r: &Request<'_>) -> Result<(Vec<(String, Sym)>, Options), Diagnostic> {
    let decl = r.lib.algorithm(r.alg);
    let mut params = vec![];
    let mut options = Options::default();
    for (name, value) in r.args {
        if !decl.params.iter().any(|(p, _)| p.node == *name) {
            return Err(unknown_parameter(decl, &Ident::new(name.clone(), r.span)));
        }
        let value = match value {
            Arg::Int(v) => Sym::Int(Expr::Int(*v)),
            Arg::Word(w) => Sym::Alg(Arc::new(AlgRef { name: w.clone(), file: r.span.file })),
        };
        params.push((name.clone(), value));
    }
    for (name, value) in r.options {
        let Some(kind) = option_kind(name) else {
            let valid: Vec<String> = OPTIONS.iter().map(|o| o.0.to_owned()).collect();
            return Err(*unknown("E006", "option", name, r.span, &valid));
        };
        let value = read(kind, value).map_err(|wanted| {
            Diagnostic::error("E006", format!("invalid value of option `{name}`"))
                .primary(r.span, format!("expected {wanted}"))
        })?;
        options.set(name, &value, false, r.span)?;
    }
    if options.cores > 1 && options.instances > 1 {
        let why = "with `cores` every core already has its own stream";
        return Err(refused("instances", r.span, why));
    }
    if options.slots.is_some() && options.transfer == Mover::Rendezvous {
        let why = "with `transfer: rendezvous` every message has one slot";
        return Err(refused("slots", r.span, why));
    }
    Ok((params, options))
}

/// Parses the value of an option. The error is a description of the values that it can have.
fn read(kind: OptionKind, value: &Arg) -> Result<OptionValue, String> {
    match (kind, value) {
        (OptionKind::Count, Arg::Int(k)) if *k >= 1 => Ok(OptionValue::Count(*k)),
        (OptionKind::Count, _) => Err("an integer of at least 1".into()),
        (OptionKind::Word(words), Arg::Word(w)) if words.contains(&w.as_str()) => {
            Ok(OptionValue::Word(w.clone()))
        }
        (OptionKind::Word(words), _) => Err(words.join(" | ")),
        (OptionKind::Flag, Arg::Word(w)) if w == "true" || w == "false" => Ok(OptionValue::Flag(w == "true")),
        (OptionKind::Flag, _) => Err("true | false".into()),
    }
}

/// Returns the algorithm as a use writes it, such as `ring` or `ring(d: -1) with (pipeline: 4)`.
pub(in crate::expand) fn label(r: &Request<'_>) -> String {
    let list = |before: &str, list: &[(String, Arg)]| {
        let list: Vec<String> = list
            .iter()
            .map(|(n, v)| match v {
                Arg::Int(i) => format!("{n}: {i}"),
                Arg::Word(w) => format!("{n}: {w}"),
            })
            .collect();
        if list.is_empty() { String::new() } else { format!("{before}({})", list.join(", ")) }
    };
    format!("{}{}{}", r.written, list("", r.args), list(" with ", r.options))
}

pub(in crate::expand) fn window(
    r: &Request<'_>,
    i: usize,
    dtype: DType,
    slots: u64,
    capacity: u64,
    memory: MemKind,
    span: Span,
) -> Window {
    Window {
        name: format!("{}_w{i}", r.name).into(),
        dtype,
        slots,
        capacity,
        memory,
        zero: false,
        offset: None,
        span,
    }
}

/// Returns the largest number of elements of a run of `len` of `den` chunks of a line on any rank,
/// given the line's largest extent and unit.
pub(in crate::expand) fn capacity(line: &Line, (extent, unit): (u64, u64), (len, den): (i64, i64)) -> u64 {
    let line = Sized { parts: line.parts, rule: &line.rule, extent, unit, row: 0 };
    line.longest(len.max(0).unsigned_abs(), den.max(1).unsigned_abs())
}
