//! Collectives defined by a contract: user-defined ones, and those of the library that move parts
//! between ranks.
//!
//! This module owns their arguments: `exclusive_scan(x, sum, over: tp, using: doubling)`, `shift(x,
//! dim: 0, by: 1)`, `permute(x, pairs: [(0, 1), (1, 0)])`, `send_recv(x, from: 0, to: 3)`. `infer`
//! checks the operand.

use super::arguments::{Arguments, cannot, missing};
use super::state::{Lowering, Value};
use super::types::reduction;
use crate::ast::{Call, Named, OptionValue, TensorKind};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::{CollKind, Collective, ContractCollective, OpId, OpKind};
use kbc_ir::types::ReduceOp;
use kbc_rounds::CollId;
use kbc_rounds::ast::{Clause, ClauseValue, CollectiveDecl, Expr, ExprKind, Ident};

/// The largest number of ranks for which pairs may be written.
const MAX_PAIRED: u64 = 1 << 16;

/// Returns whether a contract contains a sum.
pub(super) fn adds(decl: &CollectiveDecl) -> bool {
    decl.clauses.iter().any(|c| matches!(c, Clause::End { value: ClauseValue::Sum(..), .. }))
}

/// Returns how a user-defined collective is called, for messages.
fn form(decl: &CollectiveDecl) -> String {
    let sum = if adds(decl) { ", sum" } else { "" };
    let root = match &decl.root {
        Some((true, _)) => ", from: 0",
        Some((false, _)) => ", to: 0",
        None => "",
    };
    format!("{}(x{sum}{root}, over: tp)", decl.name.node)
}

impl Lowering<'_> {
    /// Lowers a collective that the file declares. Returns None if errors were reported.
    pub(super) fn own_collective(&mut self, coll: CollId, call: &Call, span: Span) -> Option<Value> {
        let decl = self.cx.library.collective(coll);
        let mut named = Arguments::new(call);
        let over = named.take("over");
        let axis = self.cx.over(call, over, &mut self.found);
        let operand = call.args.first().and_then(|a| self.operand(a));
        let dim = self.dim(named.take("dim"), operand);
        let most = if adds(decl) { 2 } else { 1 };
        if call.args.is_empty() || call.args.len() > most {
            let d = super::kernel::wrong_count(&call.name, most, call.args.len(), decl.name.span);
            self.found.push(d.help(format!("write {}", form(decl))));
        }
        let red = match call.args.get(1).filter(|_| most == 2).map(|a| (&a.kind, a.span)) {
            None => Some(adds(decl).then_some(ReduceOp::Sum)),
            Some((TensorKind::Name(n), at)) => {
                reduction(&Ident::new(n.clone(), at), &mut self.found).map(Some)
            }
            Some((_, at)) => {
                let what = format!("the second argument of `{}` must be a reduction", decl.name.node);
                self.found.push(
                    Diagnostic::error("E006", what)
                        .primary(at, "expected sum, prod, min or max")
                        .help(format!("write {}", form(decl))),
                );
                None
            }
        };
        let root = match &decl.root {
            None => Some(None),
            Some((from, _)) => {
                let word = if *from { "from" } else { "to" };
                let (by_word, by_root) = (named.take(word), named.take("root"));
                self.root_of(call, (word, &form(decl)), (by_word, by_root), None)
            }
        };
        let using = self.using_of(coll, named.take("using"));
        let sound = named.finish(&mut self.found) && (1..=most).contains(&call.args.len());
        let own = ContractCollective::named(&call.name.node);
        let c = Collective {
            kind: CollKind::ByContract,
            own: Some(Box::new(own)),
            red: red?,
            axis: axis?,
            joined: vec![],
            dim: dim?,
            from_dim: None,
            counts: None,
            root: root?,
            using: using?,
            stream: None,
            explicit: true,
            fixed_order: false,
        };
        let x = operand?;
        sound.then(|| self.push(OpKind::Collective(c), self.named_after(call), &[x], span))
    }

    /// Lowers `shift`, `permute` and `send_recv`. Returns None if errors were reported.
    pub(super) fn moving(&mut self, call: &Call, span: Span) -> Option<Value> {
        let word = call.name.node.as_str();
        let form = match word {
            "shift" => "shift(x, by: 1, over: tp)",
            "permute" => "permute(x, pairs: [(0, 1), (1, 0)], over: tp)",
            _ => "send_recv(x, from: 0, to: 1, over: tp)",
        };
        let mut named = Arguments::new(call);
        let over = named.take("over");
        let axis = self.cx.over(call, over, &mut self.found);
        let operand = call.args.first().and_then(|a| self.operand(a));
        let dim = self.dim(named.take("dim"), operand);
        if call.args.len() != 1 {
            let d = super::kernel::wrong_count(&call.name, 1, call.args.len(), Span::NONE);
            self.found.push(d.help(format!("write {form}")));
        }
        let given: Vec<(&str, Option<&Named>)> = match word {
            "shift" => vec![("by", named.take("by"))],
            "permute" => vec![("pairs", named.take("pairs"))],
            _ => vec![("from", named.take("from")), ("to", named.take("to"))],
        };
        let ranks = axis.as_ref().and_then(|a| self.cx.mesh.axis(a)).map(|a| a.size);
        let collective = if word == "shift" { "shift" } else { "permute" };
        let coll = self
            .cx
            .loaded
            .library
            .find_collective(call.name.span.file, collective, call.name.span)
            .map_err(|d| self.found.push(*d))
            .ok();
        let using = coll.and_then(|c| self.using_of(c, named.take("using")));
        let mut sound = named.finish(&mut self.found) && call.args.len() == 1;
        for (name, value) in &given {
            if value.is_none() {
                self.found.push(missing(call, name, form));
                sound = false;
            }
        }
        let (axis, ranks, dim, operand) = (axis?, ranks?.max(1), dim?, operand?);
        let mut own = ContractCollective::named(collective);
        let mut root = None;
        match &given[..] {
            [("by", Some(by))] => {
                let k = self.integer(by)?;
                root = Some(k.rem_euclid(i64::try_from(ranks).unwrap_or(i64::MAX)) as u64);
            }
            [("pairs", Some(pairs))] => own.part_of = self.pairs(pairs, ranks)?,
            [(_, Some(from)), (_, Some(to))] => {
                let (a, b) = (self.rank(from, ranks)?, self.rank(to, ranks)?);
                own.part_of = self.sources(&[((a, b), from.span.to(to.span))], ranks)?;
            }
            _ => return None,
        }
        let c = Collective {
            kind: CollKind::ByContract,
            own: Some(Box::new(own)),
            red: None,
            axis,
            joined: vec![],
            dim,
            from_dim: None,
            counts: None,
            root,
            using: using?,
            stream: None,
            explicit: true,
            fixed_order: false,
        };
        sound.then(|| {
            let moved = self.push(OpKind::Collective(c), self.named_after(call), &[operand], span);
            // Only parts change places, so the whole tensor keeps its sizes.
            if let (Value::Tensor(id), Some(known)) = (&moved, self.known.get(&operand).cloned()) {
                self.known.insert(*id, known);
            }
            moved
        })
    }

    fn dim(&mut self, named: Option<&Named>, x: Option<OpId>) -> Option<Option<usize>> {
        let rank = x.and_then(|x| self.rank_of(x));
        match named {
            Some(n) => self.cx.dimension(n, rank, &mut self.found).map(Some),
            None => Some(None),
        }
    }

    fn integer(&mut self, named: &Named) -> Option<i64> {
        let OptionValue::Expr(e) = &named.value else {
            self.found.push(cannot(named, "an integer"));
            return None;
        };
        self.cx.int(e).map_err(|d| self.found.push(*d)).ok()
    }

    fn rank(&mut self, named: &Named, ranks: u64) -> Option<u64> {
        let v = self.integer(named)?;
        self.in_range(v, named.span, ranks)
    }

    fn in_range(&mut self, v: i64, span: Span, ranks: u64) -> Option<u64> {
        let rank = u64::try_from(v).ok().filter(|v| *v < ranks);
        if rank.is_none() {
            self.found.push(
                Diagnostic::error("E205", format!("rank {v} is not one of the {ranks} ranks"))
                    .primary(span, format!("valid ranks: 0..{ranks}")),
            );
        }
        rank
    }

    /// Returns the sources (see [`Lowering::sources`]) of `[(0, 1), (1, 0)]`. A pair moves the part
    /// of its first rank to its second.
    fn pairs(&mut self, named: &Named, ranks: u64) -> Option<Vec<u64>> {
        let OptionValue::List(list) = &named.value else {
            self.found.push(cannot(named, "a list of pairs (from, to), such as [(0, 1), (1, 0)]"));
            return None;
        };
        let mut all = vec![];
        for e in list {
            let ExprKind::Tuple(parts) = &e.kind else {
                self.found.push(pair_wanted(e));
                return None;
            };
            let [from, to] = &parts[..] else {
                self.found.push(pair_wanted(e));
                return None;
            };
            let mut rank = |e: &Expr| {
                let v = self.cx.int(e).map_err(|d| self.found.push(*d)).ok()?;
                self.in_range(v, e.span, ranks)
            };
            all.push(((rank(from)?, rank(to)?), e.span));
        }
        self.sources(&all, ranks)
    }

    /// Returns, for each rank, the rank whose part it ends with. This is the rank itself if no pair
    /// names it as a destination.
    fn sources(&mut self, pairs: &[((u64, u64), Span)], ranks: u64) -> Option<Vec<u64>> {
        if ranks > MAX_PAIRED {
            let span = pairs.first().map_or(Span::NONE, |p| p.1);
            self.found.push(
                Diagnostic::error("E215", format!("a list of pairs for {ranks} ranks, which is too many"))
                    .primary(span, format!("the limit is {MAX_PAIRED} ranks"))
                    .help("use `shift`, or declare a collective of your own with an algorithm"),
            );
            return None;
        }
        let mut out: Vec<u64> = (0..ranks).collect();
        for (i, ((from, to), span)) in pairs.iter().enumerate() {
            let clash = pairs[..i].iter().find(|((f, t), _)| f == from || t == to);
            if let Some(((f, _), first)) = clash {
                let what = if f == from {
                    format!("rank {from} sends its part to two ranks")
                } else {
                    format!("rank {to} receives the parts of two ranks")
                };
                self.found.push(
                    Diagnostic::error("E227", what)
                        .primary(*span, "here")
                        .secondary(*first, "and here")
                        .help("in a permutation, each rank sends at most one part and receives at most one"),
                );
                return None;
            }
            if let Some(at) = out.get_mut(*to as usize) {
                *at = *from;
            }
        }
        Some(out)
    }
}

fn pair_wanted(e: &Expr) -> Diagnostic {
    Diagnostic::error("E006", "`pairs:` must be a list of pairs of ranks")
        .primary(e.span, "this is not a pair")
        .help("write pairs (from, to), such as pairs: [(0, 1), (1, 0)]")
}
