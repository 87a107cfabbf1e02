//! Sizes of the program's tensors as expressions in the rank count and the count.
//!
//! The type of a tensor is known at the sizes that were compiled. This module fits each size as a
//! function of rank count and count: it tries the few forms that programs have, and the form must
//! give every sample.

use super::description::{Global, PackagedProgram, refused};
use super::golden;
use crate::tile::{COUNT, NRANKS};
use kbc_diag::Diagnostic;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::name::Name;
use kbc_ir::parts::Parts;
use kbc_ir::types::{CutRule, Mesh, TensorType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sizes of one instance of a family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sizes {
    /// Number of ranks.
    pub nranks: u64,
    /// The count; 0 if there is none.
    pub count: u64,
}

/// Returns for each dimension an expression that has the sampled size in every instance. Its form
/// is `a * B + b`, with B one of 1, `count`, `nranks` and `nranks * count`. Returns `None` if some
/// dimension has no such form, or if the samples have different numbers of dimensions.
///
/// More than one form may fit a few samples. Pass at least two rank counts and two counts if they
/// vary.
pub fn fit_sizes(samples: &[(Sizes, Vec<u64>)]) -> Option<Vec<Expr>> {
    let dims = samples.first()?.1.len();
    if samples.iter().any(|s| s.1.len() != dims) {
        return None;
    }
    (0..dims).map(|d| fit(&samples.iter().map(|(at, s)| (*at, s[d])).collect::<Vec<_>>())).collect()
}

fn fit(samples: &[(Sizes, u64)]) -> Option<Expr> {
    let first = samples.first()?.1;
    if samples.iter().all(|s| s.1 == first) {
        return i64::try_from(first).ok().map(Expr::Int);
    }
    let product = Expr::Bin(BinOp::Mul, Arc::new(Expr::var(NRANKS)), Arc::new(Expr::var(COUNT)));
    type Base = fn(Sizes) -> i128;
    let bases: [(Base, Expr); 3] = [
        (|s| s.count.into(), Expr::var(COUNT)),
        (|s| s.nranks.into(), Expr::var(NRANKS)),
        (|s| i128::from(s.nranks) * i128::from(s.count), product),
    ];
    bases.into_iter().find_map(|(base, e)| {
        let at = |s: &(Sizes, u64)| (base(s.0), i128::from(s.1));
        let (x, y) = at(&samples[0]);
        let (u, v) = samples.iter().map(at).find(|(u, _)| *u != x)?;
        let (rise, run) = (v - y, u - x);
        if rise % run != 0 {
            return None;
        }
        let (a, b) = (rise / run, y - rise / run * x);
        let fits = samples.iter().map(at).all(|(u, v)| a * u + b == v);
        let (a, b) = (i64::try_from(a).ok()?, i64::try_from(b).ok()?);
        fits.then(|| (e * Expr::Int(a) + Expr::Int(b)).simplify())
    })
}

impl PackagedProgram {
    /// Returns the program of which all these typed graphs are instances. Global sizes and mesh
    /// axes become expressions; the definition must be the same in all instances. `file` is the
    /// program's file, as the user wrote it.
    ///
    /// # Errors
    /// Returns E457 if there is no instance, if sizes have no known form, or if the definition
    /// depends on the sizes.
    pub fn of(file: &str, instances: &[(Sizes, &Graph, &Mesh)]) -> Result<PackagedProgram, Diagnostic> {
        let Some((_, graph, mesh)) = instances.first() else {
            return Err(refused("there is no instance of the program"));
        };
        let definition = golden::body(graph, golden::Numbers::Plain)?;
        let lengths = |g: &Graph| -> Vec<Parts> {
            let types = g.inputs.iter().map(|i| &i.ty).chain(&g.results);
            let cuts = types.flat_map(|t| &t.dims).filter_map(|d| d.cut.as_ref());
            cuts.filter_map(|c| if let CutRule::Lengths(l) = &c.rule { Some(l.clone()) } else { None })
                .collect()
        };
        for (at, g, _) in instances {
            if lengths(g) != lengths(graph) {
                return Err(refused("parts of explicit lengths have only one size"));
            }
            if golden::body(g, golden::Numbers::Plain)? != definition {
                return Err(refused(format!(
                    "the definition at {} ranks and {} elements differs from that at the first size",
                    at.nranks, at.count
                )));
            }
        }
        let sized = |name: &Name, of: &dyn Fn(&Graph, &Mesh) -> Vec<u64>| {
            let samples: Vec<(Sizes, Vec<u64>)> =
                instances.iter().map(|(at, g, m)| (*at, of(g, m))).collect();
            fit_sizes(&samples).ok_or_else(|| {
                refused(format!(
                    "the sizes of `{name}` are not polynomials of the number of ranks and the count"
                ))
            })
        };
        let sizes = |types: Vec<&TensorType>, i: usize| types.get(i).map(|t| t.sizes()).unwrap_or_default();
        let mut inputs = vec![];
        for (i, input) in graph.inputs.iter().enumerate() {
            let sizes = sized(&input.name, &|g, _| sizes(g.inputs.iter().map(|i| &i.ty).collect(), i))?;
            inputs.push(Global { name: input.name.clone(), ty: input.ty.clone(), sizes });
        }
        let mut results = vec![];
        for (i, ty) in graph.results.iter().enumerate() {
            let output = graph.order().iter().map(|id| graph.op(*id)).find(|op| op.kind == OpKind::Output(i));
            let name = output.map_or_else(|| format!("result_{i}").into(), |op| op.name.clone());
            let sizes = sized(&name, &|g, _| sizes(g.results.iter().collect(), i))?;
            results.push(Global { name, ty: ty.clone(), sizes });
        }
        let all = Name::from("mesh");
        let fitted = sized(&all, &|_, m| m.axes.iter().map(|a| a.size).collect())?;
        let axes = mesh.axes.iter().map(|a| a.name.clone()).zip(fitted).collect();
        let name = graph.name.clone().unwrap_or_else(|| "program".into());
        let mut moved = BTreeMap::new();
        for (at, g, _) in instances {
            moved.insert(at.nranks, golden::moved_blocks(g)?);
        }
        let (file, graph) = (file.to_owned(), (*graph).clone());
        Ok(PackagedProgram { name, file, graph, axes, inputs, results, moved })
    }
}
