//! Tile kernel calls: lowers a tile kernel for operands of given sizes and element types.
//!
//! This module owns names and sizes inside a kernel. Sizes and element types bind as in a called
//! program ([`super::bind`]). The other rules for kernels are checked by
//! [`kbc_ir::tiles::TileKernel::facts`]; this module adds source places to its messages.

use super::arguments::{Arguments, count_args};
use super::kernel::{MAX_OPERATIONS, arithmetic, checked_exponent, comparison, size, wrong_count};
use super::state::{Lowering, Value};
use crate::ast::{Arg, Call, TileExpr, TileExprKind, TileKernelDecl, TileLoop, TileStmt, TileStmtKind, Type};
use crate::loaded::Callable;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::OpKind;
use kbc_ir::scalar::{Compare, Scalar, ScalarBin, ScalarUn};
use kbc_ir::tiles::{Index, KernelTensor, Stmt, Tile, TileKernel, Var};
use kbc_ir::types::DType;
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::unknown;
use std::sync::Arc;

impl<'a> Lowering<'a> {
    /// Lowers a call of a tile kernel. Returns None if errors were reported.
    pub(super) fn call_tiles(&mut self, decl: &'a TileKernelDecl, call: &Call, span: Span) -> Option<Value> {
        let sound = Arguments::new(call).finish(&mut self.found);
        let operands: Vec<Option<_>> = call.args.iter().map(|a| self.operand(a)).collect();
        let right = count_args(call, decl.args.len(), decl.name.span, &mut self.found);
        let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
        if !sound || !right {
            return None;
        }
        let mut shapes = vec![];
        for (o, a) in operands.iter().zip(&call.args) {
            shapes.push(self.shape_of(*o, a.span)?);
        }
        let places: Vec<Span> = call.args.iter().map(|a| a.span).collect();
        let before = self.found.list.len();
        let locals = std::mem::take(&mut self.cx.locals);
        let called = std::mem::replace(&mut self.cx.called, true);
        let kernel = self.kernel_for(decl, &shapes, &places);
        (self.cx.locals, self.cx.called) = (locals, called);
        for d in self.found.list.split_off(before) {
            let d = d.secondary(call.name.span, format!("`{}` is called here", decl.name.node));
            let same = |o: &Diagnostic| (o.code, &o.title, o.span()) == (d.code, &d.title, d.span());
            if !self.found.list.iter().any(same) {
                self.found.push(d);
            }
        }
        let kind = OpKind::Tiles(Arc::new(kernel?));
        Some(self.push(kind, decl.name.node.as_str().into(), &operands, span))
    }

    fn kernel_for(
        &mut self,
        decl: &'a TileKernelDecl,
        shapes: &[(DType, Vec<u64>)],
        places: &[Span],
    ) -> Option<TileKernel> {
        for (arg, (dtype, sizes)) in decl.args.iter().zip(shapes) {
            self.learn(&arg.ty, Some(*dtype), sizes);
        }
        let mut sound = true;
        let mut params = vec![];
        for (i, (arg, (dtype, sizes))) in decl.args.iter().zip(shapes).enumerate() {
            sound &= self.plain(&arg.ty, arg.data.as_ref().map(|d| d.span));
            if let Some(first) = decl.args[..i].iter().find(|a| a.name.node == arg.name.node) {
                self.twice(&arg.name, first.name.span);
                sound = false;
            }
            let what = format!("argument `{}` of `{}`", arg.name.node, decl.name.node);
            sound &= self.fit(&arg.ty, (*dtype, sizes), &what, places[i]).is_some();
            params.push(KernelTensor { name: Name::from(&arg.name.node), dtype: *dtype, dims: sizes.len() });
        }
        let (name, ty) = &decl.result;
        sound &= self.plain(ty, None);
        let result = self.cx.ty(ty, &mut self.found)?;
        if !sound {
            return None;
        }
        let result =
            KernelTensor { name: Name::from(&name.node), dtype: result.dtype, dims: result.dims.len() };
        let body = vec![];
        let kernel = TileKernel {
            name: Name::from(&decl.name.node),
            params,
            result,
            vars: vec![],
            values: vec![],
            body,
        };
        let mut b =
            Body { l: self, decl, kernel, spans: vec![], loops: vec![], values: vec![], zeros: vec![] };
        let body = b.body(&decl.body)?;
        b.kernel.body = body;
        let Body { kernel, spans, zeros, .. } = b;
        self.checked(decl, kernel, &spans, &zeros)
    }

    /// Returns the kernel if it is well-formed. Otherwise reports an error and returns None.
    fn checked(
        &mut self,
        decl: &TileKernelDecl,
        mut kernel: TileKernel,
        spans: &[Span],
        zeros: &[Zeros],
    ) -> Option<TileKernel> {
        for z in zeros.iter().filter(|z| z.index.is_none()) {
            let index = dimensions_of(&kernel, z);
            let Some(index) = index else {
                let d = Diagnostic::error("E581", "the dimensions of these zeros cannot be derived")
                    .primary(z.span, "no tile of these sizes is added to this value");
                self.found.push(d.help("name the loop variables: `zeros(f32[i, j])`"));
                return None;
            };
            fill(&mut kernel.body, z.value, &index);
        }
        match kernel.facts() {
            Ok(_) => Some(kernel),
            Err(fault) => {
                let place = fault.node.and_then(|n| spans.get(n)).copied().unwrap_or(decl.name.span);
                let d = Diagnostic::error("E581", fault.what).primary(place, fault.label);
                self.found.push(d.help(fault.help));
                None
            }
        }
    }

    /// Checks that a type of a kernel has no placement and no data.
    fn plain(&mut self, ty: &Type, data: Option<Span>) -> bool {
        let cut = ty.dims.iter().find_map(|d| d.cut.as_ref()).map(|c| c.span);
        let place = cut.or(ty.places.first().map(|p| p.span));
        let any = ty.any.then_some(ty.span);
        let fault = match (place, data, any) {
            (Some(at), ..) => {
                Some((at, "a placement", "a kernel computes on one rank, so its types have no placement"))
            }
            (_, Some(at), _) => Some((at, "data", "give data to the inputs of a program instead")),
            (.., Some(at)) => Some((at, "any number of dimensions", "give each dimension a name")),
            _ => None,
        };
        if let Some((at, what, help)) = fault {
            let d = Diagnostic::error("E582", format!("{what} is not allowed in a type of a tile kernel"));
            self.found.push(d.primary(at, "here").help(help));
        }
        fault.is_none()
    }

    fn twice(&mut self, name: &Ident, first: Span) {
        self.found.push(
            Diagnostic::error("E004", format!("`{}` is declared twice", name.node))
                .primary(name.span, "again here")
                .secondary(first, "first here")
                .help("choose another name"),
        );
    }
}

/// The zeros of `let acc = zeros(..)`.
struct Zeros {
    value: u32,
    /// The dimensions, if they are given by loop variables.
    index: Option<Vec<Index>>,
    sizes: Vec<u64>,
    span: Span,
}

/// Returns the dimensions of zeros that were given by sizes. They are the dimensions of a tile of
/// these sizes that is added to the zeros.
fn dimensions_of(kernel: &TileKernel, z: &Zeros) -> Option<Vec<Index>> {
    fn added<'k>(list: &'k [Stmt], to: u32, known: &mut Vec<(u32, Vec<Index>)>, out: &mut Vec<&'k Tile>) {
        for s in list {
            match s {
                Stmt::For { body, .. } => added(body, to, known, out),
                Stmt::Zeros { value, index, .. } => known.push((*value, index.clone())),
                Stmt::Let { value, is } => {
                    let index = is.index(&|v| of(known, v));
                    known.push((*value, index));
                }
                Stmt::Add { value, is } if *value == to => out.push(is),
                Stmt::Preload { .. } | Stmt::Add { .. } | Stmt::Store { .. } => {}
            }
        }
    }
    fn of(known: &[(u32, Vec<Index>)], v: u32) -> Vec<Index> {
        known.iter().find(|k| k.0 == v).map_or(vec![], |k| k.1.clone())
    }
    let (mut known, mut terms) = (vec![], vec![]);
    added(&kernel.body, z.value, &mut known, &mut terms);
    let tile = |i: &Index| match i {
        Index::Var(v) => kernel.vars[*v as usize].tile,
        Index::At(_) => 1,
    };
    let all = terms.into_iter().map(|t| t.index(&|v| of(&known, v)));
    let one = |i: Index| if let Index::At(_) = i { Index::At(0) } else { i };
    let mut fits = all.filter(|i| i.iter().map(tile).eq(z.sizes.iter().copied()));
    fits.next().map(|i| i.into_iter().map(one).collect())
}

/// Sets the dimensions of zeros.
fn fill(list: &mut [Stmt], of: u32, dims: &[Index]) {
    for s in list {
        match s {
            Stmt::For { body, .. } => fill(body, of, dims),
            Stmt::Zeros { value, index, .. } if *value == of => *index = dims.to_vec(),
            _ => {}
        }
    }
}

/// The state of lowering the body of a kernel.
struct Body<'b, 'a> {
    l: &'b mut Lowering<'a>,
    decl: &'a TileKernelDecl,
    kernel: TileKernel,
    /// The source ranges of its statements and expressions, in the order of their numbers.
    spans: Vec<Span>,
    /// The variables of the enclosing loops.
    loops: Vec<(&'a TileLoop, u32)>,
    /// The values in scope.
    values: Vec<(&'a Ident, u32)>,
    zeros: Vec<Zeros>,
}

impl<'a> Body<'_, 'a> {
    fn fault<T>(&mut self, d: Diagnostic) -> Option<T> {
        self.l.found.push(d);
        None
    }

    fn body(&mut self, list: &'a [TileStmt]) -> Option<Vec<Stmt>> {
        let known = self.values.len();
        let all: Vec<Option<Stmt>> = list.iter().map(|s| self.stmt(s)).collect();
        self.values.truncate(known);
        all.into_iter().collect()
    }

    fn stmt(&mut self, s: &'a TileStmt) -> Option<Stmt> {
        self.spans.push(s.span);
        match &s.kind {
            TileStmtKind::Preload(names) => {
                let params: Vec<Option<u32>> = names.iter().map(|n| self.operand(n)).collect();
                Some(Stmt::Preload { params: params.into_iter().collect::<Option<_>>()? })
            }
            TileStmtKind::For(loops, body) => {
                let outside = self.loops.len();
                let vars: Vec<Option<u32>> = loops.iter().map(|l| self.open(l)).collect();
                let vars: Option<Vec<u32>> = vars.into_iter().collect();
                let body = vars.is_some().then(|| self.body(body)).flatten();
                self.loops.truncate(outside);
                Some(Stmt::For { vars: vars?, body: body? })
            }
            TileStmtKind::Let(name, TileExpr { kind: TileExprKind::Zeros(ty), span }) => {
                let value = self.declare(name)?;
                self.zeros(value, ty, *span)
            }
            TileStmtKind::Let(name, e) => {
                let is = self.tile(e)?;
                Some(Stmt::Let { value: self.declare(name)?, is })
            }
            TileStmtKind::Add(name, e) => {
                let is = self.tile(e)?;
                Some(Stmt::Add { value: self.value(name)?, is })
            }
            TileStmtKind::Store(name, index, e) => {
                if name.node != self.decl.result.0.node {
                    let d = Diagnostic::error(
                        "E005",
                        format!("`{}` is not the result of this kernel", name.node),
                    );
                    let d = d.primary(name.span, "`store` can write only the result");
                    return self.fault(d.secondary(self.decl.result.0.span, "this is the result"));
                }
                let ty = &self.decl.result.1;
                let index = self.index(index, ty, name);
                let is = self.tile(e)?;
                Some(Stmt::Store { index: index?, is })
            }
        }
    }

    /// Returns the number of the argument with this name.
    fn operand(&mut self, name: &Ident) -> Option<u32> {
        if let Some(param) = self.decl.args.iter().position(|a| a.name.node == name.node) {
            return Some(param as u32);
        }
        let valid: Vec<String> = self.decl.args.iter().map(|a| a.name.node.clone()).collect();
        self.fault(*unknown("E005", "argument of this kernel", &name.node, name.span, &valid))
    }

    /// Declares the variable of a loop.
    fn open(&mut self, l: &'a TileLoop) -> Option<u32> {
        let name = &l.var;
        let taken = self.loops.iter().find(|o| o.0.var.node == name.node).map(|o| o.0.var.span);
        if let Some(first) = taken {
            self.l.twice(name, first);
            return None;
        }
        self.l.cx.count(&l.extent, "the extent of a loop", &mut self.l.found)?;
        let tile = self.l.cx.count(&l.tile, "the length of a tile", &mut self.l.found)?;
        let number = self.kernel.vars.len() as u32;
        self.kernel.vars.push(Var { name: Name::from(&name.node), tile });
        self.loops.push((l, number));
        Some(number)
    }

    fn declare(&mut self, name: &'a Ident) -> Option<u32> {
        let side = self.decl.args.iter().map(|a| &a.name).chain([&self.decl.result.0]);
        let loops = self.loops.iter().map(|l| &l.0.var);
        let first = side.chain(loops).chain(self.values.iter().map(|v| v.0)).find(|o| o.node == name.node);
        if let Some(first) = first.map(|o| o.span) {
            self.l.twice(name, first);
            return None;
        }
        let number = self.kernel.values.len() as u32;
        self.kernel.values.push(Name::from(&name.node));
        self.values.push((name, number));
        Some(number)
    }

    fn value(&mut self, name: &Ident) -> Option<u32> {
        if let Some((_, v)) = self.values.iter().find(|v| v.0.node == name.node) {
            return Some(*v);
        }
        let valid: Vec<String> = self.values.iter().map(|v| v.0.node.clone()).collect();
        self.fault(*unknown("E005", "value of this kernel", &name.node, name.span, &valid))
    }

    /// Lowers `zeros(f32[i, j])`, or zeros that are given by the sizes of tiles.
    fn zeros(&mut self, value: u32, ty: &Type, span: Span) -> Option<Stmt> {
        let named: Option<Vec<Index>> = ty
            .dims
            .iter()
            .map(|d| match &d.size.kind {
                ExprKind::Name(n) => self.variable(n).map(Index::Var),
                ExprKind::Int(1) => Some(Index::At(0)),
                _ => None,
            })
            .collect();
        if !self.l.plain(ty, None) {
            return None;
        }
        let (dtype, sizes) = match &named {
            Some(_) => {
                let alone = Type { dims: vec![], ..ty.clone() };
                (self.l.cx.ty(&alone, &mut self.l.found)?.dtype, vec![])
            }
            None => {
                let ty = self.l.cx.ty(ty, &mut self.l.found)?;
                (ty.dtype, ty.sizes())
            }
        };
        self.zeros.push(Zeros { value, index: named.clone(), sizes, span });
        Some(Stmt::Zeros { value, dtype, index: named.unwrap_or_default() })
    }

    fn variable(&self, name: &str) -> Option<u32> {
        self.loops.iter().find(|l| l.0.var.node == name).map(|l| l.1)
    }

    /// Lowers the indices of a tensor of this type.
    fn index(&mut self, index: &'a [Expr], ty: &'a Type, tensor: &Ident) -> Option<Vec<Index>> {
        if index.len() != ty.dims.len() {
            let (have, want) = (index.len(), ty.dims.len());
            let what = format!("`{}` has {want} dimensions, and {have} are indexed", tensor.node);
            let d = Diagnostic::error("E582", what).primary(tensor.span, "index every dimension");
            return self.fault(d.secondary(ty.span, "declared here"));
        }
        let all: Vec<Option<Index>> =
            index.iter().zip(&ty.dims).map(|(e, d)| self.place(e, &d.size)).collect();
        all.into_iter().collect()
    }

    /// Lowers one index of a dimension of this size.
    fn place(&mut self, e: &Expr, size: &'a Expr) -> Option<Index> {
        let n = self.l.cx.count(size, "a size", &mut self.l.found)?;
        let name = match &e.kind {
            ExprKind::Name(name) => self.loops.iter().find(|l| l.0.var.node == *name).copied(),
            _ => None,
        };
        let Some((l, var)) = name else {
            if let ExprKind::Name(name) = &e.kind
                && self.l.cx.locals.get(name).is_none()
                && self.l.cx.params.find(e.span.file, name).is_none()
            {
                let valid: Vec<String> = self.loops.iter().map(|l| l.0.var.node.clone()).collect();
                return self.fault(*unknown("E005", "variable of a loop", name, e.span, &valid));
            }
            let at = self.l.cx.count(e, "an index", &mut self.l.found)?;
            if at >= n {
                let d = Diagnostic::error("E582", format!("index {at} is outside a dimension of size {n}"));
                let d = d.primary(e.span, "out of range").secondary(size.span, "this dimension");
                return self.fault(d.help("index tiles with loop variables: load a[i, k]"));
            }
            return Some(Index::At(at));
        };
        let over = self.l.cx.count(&l.extent, "the extent of a loop", &mut self.l.found)?;
        let differ = match (&l.extent.kind, &size.kind) {
            (ExprKind::Name(a), ExprKind::Name(b)) => a != b,
            _ => false,
        };
        if differ || over != n {
            let d = Diagnostic::error(
                "E582",
                format!("the loop of `{}` has another extent than the dimension that it indexes", l.var.node),
            )
            .primary(e.span, format!("this dimension has size {n}"))
            .secondary(l.extent.span, format!("the extent of the loop is {over}"))
            .secondary(size.span, "this dimension is indexed");
            return self
                .fault(d.help("the extent of a loop must be the size of the dimension that it indexes"));
        }
        Some(Index::Var(var))
    }

    /// Lowers an expression. Returns None if errors were reported.
    fn tile(&mut self, e: &'a TileExpr) -> Option<Tile> {
        self.spans.push(e.span);
        match &e.kind {
            TileExprKind::Load(name, index) => {
                let param = self.operand(name)?;
                let arg: &'a Arg = &self.decl.args[param as usize];
                Some(Tile::Load { param, index: self.index(index, &arg.ty, name)? })
            }
            TileExprKind::Dot(a, b) => {
                let (a, b) = (self.tile(a), self.tile(b));
                Some(Tile::Dot(Box::new(a?), Box::new(b?)))
            }
            TileExprKind::Zeros(_) => {
                let d = Diagnostic::error("E581", "`zeros` needs a name").primary(e.span, "here");
                self.fault(d.help(
                    "`zeros` makes an accumulator: write `let acc = zeros(f32[32, 32])`, then `acc += ..`",
                ))
            }
            TileExprKind::Name(n) if self.values.iter().any(|v| v.0.node == *n) => {
                Some(Tile::Value(self.value(&Ident::new(n.clone(), e.span))?))
            }
            TileExprKind::Call(name, args) if self.cast(name).is_some() => {
                let [a] = &args[..] else {
                    return self.fault(wrong_count(name, 1, args.len(), Span::NONE));
                };
                let a = self.tile(a)?;
                Some(Tile::Cast(self.cast(name)?, Box::new(a)))
            }
            _ => {
                let mut args = vec![];
                let body = self.scalar(e, &mut args)?;
                if size(&body, &[]) > MAX_OPERATIONS {
                    return self.too_large(e.span);
                }
                let name = match &e.kind {
                    TileExprKind::Call(name, _) => name.node.clone(),
                    TileExprKind::Neg(_) => "neg".into(),
                    TileExprKind::Binary(op, ..) => arithmetic(*op).map_or("f", ScalarBin::name).into(),
                    _ => "f".into(),
                };
                let params = (0..args.len()).map(|i| Name::from(format!("x{i}"))).collect();
                Some(Tile::Map(kbc_ir::scalar::ScalarFn { name: name.into(), params, body }, args))
            }
        }
    }

    /// Returns the element type to which a word casts.
    fn cast(&self, word: &Ident) -> Option<DType> {
        self.l.cx.element_type(word)
    }

    /// Lowers an elementwise expression. Tiles in it become arguments of the function.
    fn scalar(&mut self, e: &'a TileExpr, args: &mut Vec<Tile>) -> Option<Scalar> {
        match &e.kind {
            TileExprKind::Int(i) => Some(Scalar::Num(*i as f64)),
            TileExprKind::Float(x) => Some(Scalar::Num(*x)),
            TileExprKind::Name(n) if self.values.iter().all(|v| v.0.node != *n) => self.number(n, e.span),
            TileExprKind::Neg(a) => Some(match self.scalar(a, args)? {
                Scalar::Num(x) => Scalar::Num(-x),
                a => Scalar::Un(ScalarUn::Neg, Box::new(a)),
            }),
            TileExprKind::Binary(op, a, b) => {
                let Some(op) = arithmetic(*op) else {
                    let d = Diagnostic::error("E227", "a kernel cannot compute this");
                    let d = d.primary(e.span, "a comparison is not a number");
                    return self
                        .fault(d.help("write comparisons only as conditions: `if a < b { x } else { y }`"));
                };
                let (a, b) = (self.scalar(a, args), self.scalar(b, args));
                Some(Scalar::bin(op, a?, b?))
            }
            TileExprKind::If(c, a, b) => {
                let c = self.condition(c, args);
                let (a, b) = (self.scalar(a, args), self.scalar(b, args));
                Some(Scalar::If(Box::new(c?), Box::new(a?), Box::new(b?)))
            }
            TileExprKind::Call(name, list) if self.cast(name).is_none() => self.called(name, list, args),
            _ => {
                let t = self.tile(e)?;
                args.push(t);
                Some(Scalar::Arg(args.len() - 1))
            }
        }
    }

    fn too_large<T>(&mut self, span: Span) -> Option<T> {
        let d = Diagnostic::error("E228", "the expression has too many operations");
        let d = d.primary(
            span,
            format!("more than {MAX_OPERATIONS}, including those of the kernels that it calls"),
        );
        self.fault(d.help("use `let` for parts of it"))
    }

    fn number(&mut self, name: &str, span: Span) -> Option<Scalar> {
        if self.decl.args.iter().any(|a| a.name.node == name) {
            let d = Diagnostic::error("E581", format!("`{name}` is a tensor, not a tile"));
            return self.fault(
                d.primary(span, "here").help(format!("load a tile of the tensor: `load {name}[i, j]`")),
            );
        }
        let e = Expr { kind: ExprKind::Name(name.to_owned()), span };
        match self.l.cx.number(&e) {
            Ok(n) => Some(Scalar::Num(n.as_f64())),
            Err(_) => {
                let mut valid: Vec<String> = self.values.iter().map(|v| v.0.node.clone()).collect();
                valid.extend(self.l.cx.locals.names());
                valid.extend(self.l.cx.loaded.params(span.file).map(|p| p.name.node.clone()));
                self.fault(*unknown("E005", "value of this kernel", name, span, &valid))
            }
        }
    }

    fn condition(&mut self, e: &'a TileExpr, args: &mut Vec<Tile>) -> Option<Compare> {
        if let TileExprKind::Binary(op, a, b) = &e.kind
            && let Some(op) = comparison(*op)
        {
            let (a, b) = (self.scalar(a, args), self.scalar(b, args));
            return Some(Compare { op, a: a?, b: b? });
        }
        let d = Diagnostic::error("E227", "a condition in a kernel must be one comparison")
            .primary(e.span, "this is not a comparison");
        self.fault(d.help("write `a < b` (or <= > >= == !=); nest `if` for `and` and `or`"))
    }

    /// Lowers a call of a scalar function or of an elementwise kernel.
    fn called(&mut self, name: &'a Ident, list: &'a [TileExpr], args: &mut Vec<Tile>) -> Option<Scalar> {
        let word = name.node.as_str();
        let wrong =
            |want: usize| (list.len() != want).then(|| wrong_count(name, want, list.len(), Span::NONE));
        if word == "select" {
            let [c, a, b] = list else { return self.fault(wrong_count(name, 3, list.len(), Span::NONE)) };
            let c = self.condition(c, args);
            let (a, b) = (self.scalar(a, args), self.scalar(b, args));
            return Some(Scalar::If(Box::new(c?), Box::new(a?), Box::new(b?)));
        }
        if word == "pow_int" {
            let [x, n] = list else { return self.fault(wrong_count(name, 2, list.len(), Span::NONE)) };
            let x = self.scalar(x, args);
            let TileExprKind::Int(n) = n.kind else {
                let d = Diagnostic::error("E227", "the exponent of `pow_int` must be an integer");
                return self.fault(d.primary(n.span, "this is not an integer"));
            };
            return match checked_exponent(n, name.span) {
                Ok(n) => Some(Scalar::Pow(Box::new(x?), n)),
                Err(d) => self.fault(d),
            };
        }
        let values: Vec<Option<Scalar>> = list.iter().map(|a| self.scalar(a, args)).collect();
        let values: Option<Vec<Scalar>> = values.into_iter().collect();
        if let Some(f) = ScalarUn::parse(word) {
            return match wrong(1) {
                Some(d) => self.fault(d),
                None => values?.pop().map(|a| Scalar::Un(f, Box::new(a))),
            };
        }
        if let "min" | "max" = word {
            let op = if word == "min" { ScalarBin::Min } else { ScalarBin::Max };
            if list.len() < 2 {
                return self.fault(wrong_count(name, 2, list.len(), Span::NONE));
            }
            return values?.into_iter().reduce(|a, b| Scalar::bin(op, a, b));
        }
        match self.l.cx.loaded.callable(name.span.file, word) {
            Some(Callable::Kernel(decl)) => {
                let f = self.l.cx.kernels.get(decl, &mut self.l.found);
                if decl.params.len() != list.len() {
                    let d = wrong_count(name, decl.params.len(), list.len(), decl.name.span);
                    return self.fault(d);
                }
                let (f, values) = (f?, values?);
                let sizes: Vec<usize> = values.iter().map(|v| size(v, &[])).collect();
                if size(&f.body, &sizes) > MAX_OPERATIONS {
                    return self.too_large(name.span);
                }
                Some(f.body.subst(&values))
            }
            Some(other) => {
                let d = Diagnostic::error("E227", format!("`{word}` is not an elementwise kernel"))
                    .primary(name.span, "a kernel can call only functions and elementwise kernels")
                    .secondary(other.name().span, "declared here");
                self.fault(d)
            }
            None => {
                if let Some(d) = self.l.cx.loaded.unknown_in_space("kernel", name) {
                    return self.fault(d);
                }
                let mut valid: Vec<String> = ScalarUn::ALL.iter().map(|f| f.name().to_owned()).collect();
                valid.extend(["min", "max", "select", "pow_int", "f32", "f16", "bf16"].map(str::to_owned));
                valid.extend(self.l.cx.loaded.callables(name.span.file).filter_map(|c| match c {
                    Callable::Kernel(k) => Some(k.name.node.clone()),
                    _ => None,
                }));
                self.fault(*unknown("E005", "function or kernel", word, name.span, &valid))
            }
        }
    }
}
