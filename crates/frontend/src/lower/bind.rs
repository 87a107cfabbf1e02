//! Sizes and element types that bind where they are first used, and whether a value fits a type.
//!
//! Owns the kinds of arguments, what is known of the values made so far, and the messages about what does not fit.
//! Calls are [`super::inline`]'s, types as they are written [`super::types`]'.

use super::locals::Local;
use super::params::Number;
use super::program::Lowering;
use crate::ast::{self, Arg, DataKind};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{Op, OpId, OpKind};
use kbc_ir::result::result_of;
use kbc_ir::types::{DType, TensorType};
use kbc_rounds::ast::ExprKind;

/// What an argument of a program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Tensor,
    Int,
    Number,
    Bool,
    Axis,
}

/// The kind of an argument: a word in the place of a type, or a type.
pub(super) fn kind(arg: &Arg) -> Kind {
    let ty = &arg.ty;
    if ty.any || !ty.dims.is_empty() || !ty.places.is_empty() {
        return Kind::Tensor;
    }
    match ty.dtype.node.as_str() {
        "int" => Kind::Int,
        "number" => Kind::Number,
        "bool" => Kind::Bool,
        "axis" => Kind::Axis,
        _ => Kind::Tensor,
    }
}

/// Whether a number stands in the place of a tensor that is not given.
pub(super) fn has_number(arg: &Arg) -> bool {
    arg.data.as_ref().is_some_and(|d| matches!(d.kind, DataKind::Value(_)))
}

/// Names that the types of a program's arguments use as sizes and that are no arguments, in the order of their first use.
pub(super) fn sizes(args: &[Arg]) -> Vec<&str> {
    let mut out: Vec<&str> = vec![];
    let dims = args.iter().filter(|a| kind(a) == Kind::Tensor).flat_map(|a| &a.ty.dims);
    for d in dims {
        if let ExprKind::Name(n) = &d.size.kind
            && !out.contains(&n.as_str())
            && args.iter().all(|a| a.name.node != *n)
        {
            out.push(n);
        }
    }
    out
}

/// Element types by the names that other languages give them.
const ELSEWHERE: [(&str, DType); 14] = [
    ("float", DType::F32),
    ("float32", DType::F32),
    ("single", DType::F32),
    ("float16", DType::F16),
    ("half", DType::F16),
    ("bfloat", DType::BF16),
    ("bfloat16", DType::BF16),
    ("int32", DType::I32),
    ("int8", DType::I8),
    ("uint8", DType::U8),
    ("char", DType::I8),
    ("byte", DType::U8),
    ("short", DType::I16),
    ("long", DType::I64),
];

/// The element type that is meant by a name that is none, and resembles one too much to be a name for any.
pub(super) fn misspelt(name: &str) -> Option<&'static str> {
    let plain = name.to_lowercase();
    let elsewhere = ELSEWHERE.iter().find(|e| e.0 == plain).map(|e| e.1.name());
    elsewhere.or_else(|| nearest(name, DType::ALL.map(DType::name)))
}

/// What is known of a value while it is lowered.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Known {
    Type(DType, Vec<u64>),
    /// The operation does not fit its operands.
    Fault(String),
    /// It comes from one that does not, or the graph does not say.
    Nothing,
}

impl Lowering<'_> {
    /// Appends an operation and notes what its value is.
    pub(super) fn add(&mut self, op: Op, operands: &[OpId]) -> OpId {
        let known = match (&op.kind, &op.want) {
            (OpKind::Input(i), _) => match self.graph.inputs.get(*i) {
                Some(input) => Known::Type(input.ty.dtype, input.ty.sizes()),
                None => Known::Nothing,
            },
            (_, Some(want)) => Known::Type(want.dtype, want.sizes()),
            (kind, None) => {
                let of = |o: &OpId| match self.known.get(o) {
                    Some(Known::Type(dtype, sizes)) => Some((*dtype, sizes.clone())),
                    _ => None,
                };
                match operands.iter().map(of).collect::<Option<Vec<_>>>().map(|all| result_of(kind, &all)) {
                    Some(Ok(Some((dtype, sizes)))) => Known::Type(dtype, sizes),
                    Some(Err(why)) => Known::Fault(why),
                    Some(Ok(None)) | None => Known::Nothing,
                }
            }
        };
        let id = self.graph.push(op, operands);
        self.known.insert(id, known);
        id
    }

    /// Number of dimensions of a value, if it is known.
    pub(super) fn rank_of(&self, value: OpId) -> Option<usize> {
        match self.known.get(&value) {
            Some(Known::Type(_, sizes)) => Some(sizes.len()),
            _ => None,
        }
    }

    /// Element type of a value, if it is known.
    pub(super) fn dtype_of(&self, value: OpId) -> Option<DType> {
        match self.known.get(&value) {
            Some(Known::Type(dtype, _)) => Some(*dtype),
            _ => None,
        }
    }

    /// Element type and sizes of a value; none after a message that says what they depend on.
    pub(super) fn shape_of(&mut self, value: OpId, at: Span) -> Option<(DType, Vec<u64>)> {
        if let Some(Known::Type(dtype, sizes)) = self.known.get(&value) {
            return Some((*dtype, sizes.clone()));
        }
        let (mut todo, mut told) = (vec![value], false);
        while let Some(id) = todo.pop() {
            if let Some(Known::Fault(why)) = self.known.get(&id) {
                let d = Diagnostic::error("E201", format!("shapes do not match: {why}"))
                    .primary(self.graph.op(id).span, "computed here");
                let d = self.graph.told(id, d);
                if !self.found.list.contains(&d) {
                    self.found.push(d);
                }
                told = true;
            } else if !matches!(self.known.get(&id), Some(Known::Type(..))) {
                todo.extend(self.graph.operands(id));
            }
        }
        if !told {
            self.found.push(
                Diagnostic::error("E231", "the sizes of this value are not known before placements are")
                    .primary(at, "its collective may change them")
                    .help("give it a type: `let y: f32[25, 384] = ..`"),
            );
        }
        None
    }

    /// Binds the names in a type that have no meaning yet to what the value is. `any` dimensions come first where the type
    /// says `..`; nothing binds where the number of dimensions differs.
    pub(super) fn learn(&mut self, ty: &ast::Type, dtype: Option<DType>, sizes: &[u64]) {
        let name = &ty.dtype.node;
        let known = DType::parse(name).is_some() || self.cx.locals.get(name).is_some();
        // What resembles an element type is one that is written wrongly.
        if let (false, Some(dtype)) = (known || misspelt(name).is_some(), dtype) {
            self.cx.locals.set(name, Local::Type(dtype), ty.dtype.span);
        }
        let Some(first) = leading(ty, sizes.len()) else { return };
        for (dim, size) in ty.dims.iter().zip(&sizes[first..]) {
            let ExprKind::Name(n) = &dim.size.kind else { continue };
            if self.cx.locals.get(n).is_none()
                && self.cx.params.find(dim.size.span.file, n).is_none()
                && let Ok(size) = i64::try_from(*size)
            {
                self.cx.locals.set(n, Local::Number(Number::Int(size)), dim.size.span);
            }
        }
    }

    /// The type as it is for a value, whose names are bound; none after a message that the value does not fit.
    pub(super) fn fit(
        &mut self,
        ty: &ast::Type,
        (dtype, sizes): (DType, &[u64]),
        what: &str,
        at: Span,
    ) -> Option<TensorType> {
        let have = TensorType::replicated(dtype, sizes);
        let misfit = |why: String, place: Span| {
            Diagnostic::error("E230", format!("{what} is `{have}`, and its type says otherwise"))
                .primary(at, format!("this is `{have}`"))
                .secondary(place, why)
        };
        let Some(first) = leading(ty, sizes.len()) else {
            let least = if ty.any { "at least " } else { "" };
            let s = if ty.dims.len() == 1 { "" } else { "s" };
            self.found.push(misfit(format!("{least}{} dimension{s} wanted", ty.dims.len()), ty.span));
            return None;
        };
        let want = self.cx.ty_behind(ty, &sizes[..first], &mut self.found)?;
        let mut sound = true;
        if want.dtype != dtype {
            let mut d = misfit(format!("{} wanted", want.dtype), ty.dtype.span);
            if let Some(place) = self.cx.locals.place(&ty.dtype.node).filter(|p| *p != ty.dtype.span) {
                d = d.secondary(place, format!("`{}` is {} by this", ty.dtype.node, want.dtype));
            }
            self.found.push(d.help(format!("cast it: `{}(..)`", want.dtype)));
            sound = false;
        }
        for (i, (dim, size)) in ty.dims.iter().zip(&sizes[first..]).enumerate() {
            let wanted = want.dims.get(first + i).map_or(*size, |d| d.size);
            if wanted == *size {
                continue;
            }
            let mut d =
                misfit(format!("dimension {} is {size} where {wanted} is wanted", first + i), dim.span);
            if let ExprKind::Name(n) = &dim.size.kind
                && let Some(place) = self.cx.locals.place(n).filter(|p| *p != dim.size.span)
            {
                d = d.secondary(place, format!("`{n}` is {wanted} by this"));
            }
            self.found.push(d);
            sound = false;
        }
        sound.then_some(want)
    }

    /// The value as a type of a called program asks for it: nothing new where it asks for no placement.
    pub(super) fn asked(&mut self, ty: &ast::Type, want: TensorType, value: OpId, name: Name) -> OpId {
        let cut = |d: &ast::Dim| d.cut.is_some();
        if !ty.dims.iter().any(cut) && ty.places.is_empty() {
            return value;
        }
        let first = want.dims.len() - ty.dims.len();
        let open = (0..want.dims.len()).filter(|i| *i < first || !cut(&ty.dims[i - first])).collect();
        let op = Op { kind: OpKind::Ask(open), name, ty: None, want: Some(want), span: ty.span };
        self.add(op, &[value])
    }
}

/// How many dimensions of a value come before those that a type names; none if the numbers do not fit.
fn leading(ty: &ast::Type, rank: usize) -> Option<usize> {
    let first = rank.checked_sub(ty.dims.len())?;
    (first == 0 || ty.any).then_some(first)
}
