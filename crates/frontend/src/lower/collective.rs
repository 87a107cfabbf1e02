//! Explicit collectives: `all_reduce(y, sum, over: tp, using: ring(d: -1))`.
//!
//! This module owns their arguments and the names in `using:`. `infer` checks whether the operand
//! has the placement from which the collective starts, and `select` whether the algorithm is legal
//! on the axis.

use super::Cx;
use super::arguments::{Arguments, cannot, missing};
use super::state::{Lowering, Value};
use super::tensor::function;
use super::types::reduction;
use crate::ast::{Call, Named, OptionValue, TensorKind};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{CollKind, Collective, Holding, OpId, OpKind, Using, UsingArg};
use kbc_ir::scalar::{Scalar, ScalarBin};
use kbc_ir::types::ReduceOp;
use kbc_rounds::CollId;
use kbc_rounds::ast::{AlgorithmDecl, Expr, ExprKind, Ident};
use kbc_rounds::eval::{ConcreteEvaluator, Fault, ListScope};
use kbc_rounds::head::{algorithm_valued, unknown_parameter};
use kbc_rounds::options::{OptionKind, among_arguments, option_kind, option_value};

/// The reduction that is a sum followed by a division.
const AVERAGE: &str = "avg";

/// Returns whether a call reduces to the average.
pub(super) fn averages(call: &Call) -> bool {
    call.args.get(1).is_some_and(|a| matches!(&a.kind, TensorKind::Name(n) if n == AVERAGE))
}

impl Lowering<'_> {
    /// Lowers an explicit collective. Returns None if errors were reported.
    pub(super) fn collective(&mut self, kind: CollKind, call: &Call, span: Span) -> Option<Value> {
        let mut named = Arguments::new(call);
        let over = named.take("over");
        let axis = self.cx.over(call, over, &mut self.found);
        let (mut dim, mut from_dim, mut root) = (Some(None), Some(None), Some(None));
        let mut matrix = Some(None);
        let (operand, red) = self.positional(kind, call);
        let rank = operand.and_then(|x| self.rank_of(x));
        match kind.change() {
            Some((Holding::SplitFrom, _)) => {
                let (from, to) = (named.take("from"), named.take("to"));
                match named.take("counts") {
                    Some(n) => {
                        matrix = axis.as_ref().and_then(|a| self.cx.counts(n, a, &mut self.found)).map(Some);
                        for other in [from, to].into_iter().flatten() {
                            self.along_rows(other);
                        }
                        (from_dim, dim) = (Some(Some(0)), Some(Some(0)));
                    }
                    None => {
                        from_dim = self.needed((call, kind, rank), "from", from);
                        dim = self.needed((call, kind, rank), "to", to);
                    }
                }
            }
            Some(_) if kind.blocked() => {
                dim = self.needed((call, kind, rank), "dim", named.take("dim"));
            }
            _ => {}
        }
        if kind.rooted() {
            let from = kind.takes(Holding::Root);
            let word = if from { "from" } else { "to" };
            let (by_word, by_root) = (named.take(word), named.take("root"));
            let holder = if from { operand.and_then(|x| self.holder(x)) } else { None };
            root = self.root_of(call, (word, kind.call()), (by_word, by_root), holder);
        }
        let using = match named.take("using") {
            Some(n) => {
                let file = n.span.file;
                match self.cx.library.find_collective(file, kind.name(), n.span) {
                    Ok(coll) => self.using_of(coll, Some(n)),
                    Err(d) => {
                        self.found.push(*d);
                        None
                    }
                }
            }
            None => Some(None),
        };
        let fixed_order = self.fixed_order(kind, &mut named);
        let sound = named.finish(&mut self.found);
        let collective = Collective {
            kind,
            own: None,
            red: red?,
            axis: axis?,
            joined: vec![],
            dim: dim?,
            from_dim: from_dim?,
            root: root?,
            counts: matrix?,
            using: using?,
            stream: None,
            explicit: true,
            fixed_order: fixed_order?,
        };
        let x = operand?;
        let ranks = self.cx.mesh.axis(&collective.axis).map_or(1, |a| a.size);
        if !sound {
            return None;
        }
        let done = self.push(OpKind::Collective(collective), self.named_after(call), &[x], span);
        if !averages(call) {
            return Some(done);
        }
        // An average is a sum, followed by one division of the complete sum on the ranks that hold
        // it.
        let body = Scalar::bin(ScalarBin::Div, Scalar::Arg(0), Scalar::Num(ranks as f64));
        self.map(function("average", 1, body), vec![(done, span)], span)
    }

    /// Returns whether `order: fixed` is given. Collectives that combine nothing have no such
    /// argument.
    pub(super) fn fixed_order(&mut self, kind: CollKind, named: &mut Arguments<'_>) -> Option<bool> {
        if !kind.reduces() {
            return Some(false);
        }
        let Some(order) = named.take("order") else { return Some(false) };
        match &order.value {
            OptionValue::Expr(Expr { kind: ExprKind::Name(word), .. }) if word == "fixed" => Some(true),
            OptionValue::Expr(Expr { kind: ExprKind::Name(word), .. }) if word == "any" => Some(false),
            _ => {
                self.found.push(cannot(order, "fixed or any"));
                None
            }
        }
    }

    /// Reports `from:` or `to:` beside `counts:`. With counts, the collective always moves rows to
    /// rows.
    pub(super) fn along_rows(&mut self, named: &Named) {
        self.found.push(
            Diagnostic::error("E006", format!("`{}:` and `counts:` exclude each other", named.name.node))
                .primary(named.span, "`counts:` always moves rows (dimension 0)")
                .help("write all_to_all(x, counts: [[3, 0], [1, 2]], over: tp)"),
        );
    }

    /// Returns the operand, and the reduction if the collective has one.
    pub(super) fn positional(
        &mut self,
        kind: CollKind,
        call: &Call,
    ) -> (Option<OpId>, Option<Option<ReduceOp>>) {
        let operand = call.args.first().and_then(|a| self.operand(a));
        let wanted = if kind.reduces() { 2 } else { 1 };
        if call.args.len() != wanted {
            let d = super::kernel::wrong_count(&call.name, wanted, call.args.len(), Span::NONE);
            self.found.push(d.help(format!("write {}", kind.call())));
            return (None, None);
        }
        if !kind.reduces() {
            return (operand, Some(None));
        }
        let red = match call.args.get(1).map(|a| (&a.kind, a.span)) {
            Some((TensorKind::Name(n), _)) if n == AVERAGE => Some(ReduceOp::Sum),
            Some((TensorKind::Name(n), span)) => reduction(&Ident::new(n.clone(), span), &mut self.found),
            Some((_, span)) => {
                self.found.push(
                    Diagnostic::error(
                        "E006",
                        format!("the second argument of `{}` must be a reduction", kind.name()),
                    )
                    .primary(span, "expected sum, prod, min, max or avg")
                    .help(format!("write {}", kind.call())),
                );
                None
            }
            None => None,
        };
        (operand, red.map(Some))
    }

    pub(super) fn needed(
        &mut self,
        (call, kind, rank): (&Call, CollKind, Option<usize>),
        name: &str,
        named: Option<&Named>,
    ) -> Option<Option<usize>> {
        match named {
            Some(n) => self.cx.dimension(n, rank, &mut self.found).map(Some),
            None => {
                self.found.push(missing(call, name, kind.call()));
                None
            }
        }
    }

    /// Returns the coordinate that holds a value whose type is written down, or 0 if all
    /// coordinates hold it. `infer` rejects the latter.
    fn holder(&self, value: OpId) -> Option<u64> {
        let op = self.graph.op(value);
        let ty = match op.kind {
            OpKind::Input(i) => self.graph.inputs.get(i).map(|i| &i.ty),
            _ => op.want.as_ref(),
        };
        ty.map(|t| t.only.as_ref().map_or(0, |o| o.0))
    }

    /// Returns the root that a call names, or `holder` if it names none.
    pub(super) fn root_of(
        &mut self,
        call: &Call,
        (word, form): (&str, &str),
        given: (Option<&Named>, Option<&Named>),
        holder: Option<u64>,
    ) -> Option<Option<u64>> {
        match given {
            (Some(a), Some(b)) => {
                self.found.push(
                    Diagnostic::error("E006", format!("`{word}:` and `root:` mean the same"))
                        .primary(b.span, "given here")
                        .secondary(a.span, "and here")
                        .help("remove one of them"),
                );
                None
            }
            (Some(n), None) | (None, Some(n)) => self.cx.count_of(n, &mut self.found).map(Some),
            (None, None) if holder.is_some() => Some(holder),
            (None, None) => {
                self.found.push(missing(call, word, form));
                None
            }
        }
    }

    /// Returns the algorithm of `using: ring(d: -1) with (pipeline: 4)` with its names checked.
    /// Returns `Some(None)` if there is no such argument.
    pub(super) fn using_of(&mut self, coll: CollId, named: Option<&Named>) -> Option<Option<Using>> {
        match named {
            Some(n) => self.using(coll, n).map(Some),
            None => Some(None),
        }
    }

    fn using(&mut self, coll: CollId, named: &Named) -> Option<Using> {
        let none: &[(Ident, Expr)] = &[];
        let (whole, args, options, span) = match &named.value {
            OptionValue::Expr(Expr { kind: ExprKind::Name(n), span }) => {
                (Ident::new(n.clone(), *span), none, none, *span)
            }
            OptionValue::Use(u) => (u.alg.clone(), &u.args[..], &u.options[..], u.span),
            _ => {
                self.found.push(cannot(named, "an algorithm: ring, ring(d: -1), ring with (pipeline: 4)"));
                return None;
            }
        };
        let (library, file) = (self.cx.library, whole.span.file);
        let alg = library.find_algorithm(file, coll, &whole.node, whole.span);
        let decl = match alg {
            Ok(id) => library.algorithm(id),
            Err(d) => {
                self.found.push(*d);
                return None;
            }
        };
        let own = |n: &str| decl.params.iter().any(|p| p.0.node == n);
        if let Some(d) = among_arguments(&whole, (args, options), span, own) {
            self.found.push(d);
            return None;
        }
        let args = self.each_once(args, |cx, name, value| cx.using_arg(decl, name, value));
        let options = self.each_once(options, |cx, name, value| cx.using_option(name, value));
        Some(Using { alg: Name::from(&whole.node), args: args?, options: options?, span: whole.span })
    }

    /// Returns the values of arguments or options, or None if errors were reported.
    fn each_once(
        &mut self,
        list: &[(Ident, Expr)],
        value_of: impl Fn(&Cx<'_>, &Ident, &Expr) -> Result<UsingArg, Fault>,
    ) -> Option<Vec<(Name, UsingArg)>> {
        let mut out: Option<Vec<(Name, UsingArg)>> = Some(vec![]);
        for (i, (name, value)) in list.iter().enumerate() {
            if let Some(first) = list[..i].iter().find(|o| o.0.node == name.node) {
                self.found.push(
                    Diagnostic::error("E006", format!("`{}` is given twice", name.node))
                        .primary(name.span, "again here")
                        .secondary(first.0.span, "first here"),
                );
                out = None;
                continue;
            }
            match value_of(&self.cx, name, value) {
                Ok(v) => {
                    if let Some(list) = &mut out {
                        list.push((Name::from(&name.node), v));
                    }
                }
                Err(d) => {
                    self.found.push(*d);
                    out = None;
                }
            }
        }
        out
    }
}

impl Cx<'_> {
    /// Returns an option of a use.
    pub(super) fn using_option(&self, name: &Ident, value: &Expr) -> Result<UsingArg, Fault> {
        let library = self.library;
        let value = match option_kind(&name.node) {
            Some(OptionKind::Count) => Expr { kind: ExprKind::Int(self.int(value)?), span: value.span },
            _ => value.clone(),
        };
        option_value(name, &value, &ConcreteEvaluator::new(library), &ListScope::default())?;
        Ok(match &value.kind {
            ExprKind::Int(i) => UsingArg::Int(*i),
            ExprKind::Bool(b) => UsingArg::Name(if *b { "true" } else { "false" }.into()),
            ExprKind::Name(n) => UsingArg::Name(Name::from(n)),
            _ => {
                let d = Diagnostic::error("E006", format!("invalid value of option `{}`", name.node));
                return Err(Box::new(d.primary(value.span, "expected a word or a number")));
            }
        })
    }

    /// Returns an argument of an algorithm.
    pub(super) fn using_arg(
        &self,
        decl: &AlgorithmDecl,
        name: &Ident,
        value: &Expr,
    ) -> Result<UsingArg, Fault> {
        let library = self.library;
        let Some(at) = decl.params.iter().position(|p| p.0.node == name.node) else {
            return Err(Box::new(unknown_parameter(decl, name)));
        };
        if algorithm_valued(decl, library).get(at) != Some(&true) {
            return self.int(value).map(UsingArg::Int);
        }
        match &value.kind {
            ExprKind::Name(n) if library.is_algorithm_name(value.span.file, n) => {
                Ok(UsingArg::Name(Name::from(n)))
            }
            ExprKind::Name(n) => {
                Err(library.no_algorithm("algorithm", value.span.file, (n, value.span), &[]))
            }
            _ => Err(Box::new(
                Diagnostic::error("E006", format!("parameter `{}` must be an algorithm", name.node))
                    .primary(value.span, "this is not an algorithm")
                    .secondary(decl.params[at].0.span, "the parameter"),
            )),
        }
    }
}

/// Returns the `using:` of an algorithm with all parameters at their defaults.
pub(super) fn plain(decl: &AlgorithmDecl) -> Using {
    Using { alg: Name::from(&decl.name.node), args: vec![], options: vec![], span: decl.name.span }
}
