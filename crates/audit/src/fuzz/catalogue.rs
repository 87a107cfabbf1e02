//! Catalogue of the library for random programs: the algorithms that are legal on an axis, and the
//! kernels.

use super::machine::RandomMachine;
use super::rng::Rng;
use kbc_diag::FileId;
use kbc_frontend::loaded::{Callable, Loaded};
use kbc_ir::types::Axis;
use kbc_rounds::ast::{AlgorithmDecl, ExprKind};
use kbc_rounds::eval::Value;
use kbc_rounds::group::is_legal;
use kbc_rounds::head::algorithm_valued;
use kbc_rounds::library::AlgId;
use kbc_rounds::rounds::{Call, coordinates};
use std::collections::{BTreeMap, BTreeSet};

/// The library as random programs use it.
pub struct Catalogue<'l> {
    loaded: &'l Loaded,
    /// Names of algorithms over one axis, with the collectives that they serve.
    names: BTreeMap<String, BTreeSet<String>>,
    /// Elementwise kernels: name and number of operands.
    pub kernels: Vec<(String, usize)>,
}

impl<'l> Catalogue<'l> {
    /// Creates the catalogue of a library that was loaded without a user's file.
    pub fn new(loaded: &'l Loaded) -> Self {
        let library = &loaded.library;
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for decl in library.algorithms().map(|a| library.algorithm(a)).filter(|d| d.axes.len() == 1) {
            names.entry(decl.name.node.clone()).or_default().insert(decl.coll.node.clone());
        }
        let kernels =
            loaded.callables(loaded.files.first().map_or(FileId(0), |f| f.id)).filter_map(|c| match c {
                Callable::Kernel(k) => Some((k.name.node.clone(), k.params.len())),
                _ => None,
            });
        Catalogue { loaded, names, kernels: kernels.collect() }
    }

    /// Returns every algorithm of a collective that is legal on an axis.
    pub fn legal(&self, coll: &str, axis: &Axis, root: Option<u64>) -> Vec<&'l AlgorithmDecl> {
        let library = &self.loaded.library;
        let fits = |a: &AlgId| {
            let decl = library.algorithm(*a);
            let sizes: Vec<i64> = match decl.axes.len() {
                1 => vec![axis.size as i64],
                n if n == axis.parts.len() => axis.parts.iter().map(|p| p.1 as i64).collect(),
                _ => return false,
            };
            let root = root.map(|r| coordinates(&sizes, r as i64));
            decl.coll.node == coll
                && is_legal(library, &Call { alg: *a, sizes, root, args: Vec::<(String, Value)>::new() })
                    .unwrap_or(false)
        };
        library.algorithms().filter(fits).map(|a| library.algorithm(a)).collect()
    }

    /// Returns a random `using: ..` for a collective on an axis, or `None` to leave the choice to
    /// the compiler.
    pub fn using(
        &self,
        rng: &mut Rng,
        coll: &str,
        machine: &RandomMachine,
        axis: usize,
        root: Option<u64>,
    ) -> Option<String> {
        let all = self.legal(coll, &machine.mesh.axes[axis], root);
        if all.is_empty() || rng.chance(15) {
            return None;
        }
        let decl = *rng.pick(&all);
        let mut args = vec![];
        for ((name, default), is_algorithm) in
            decl.params.iter().zip(algorithm_valued(decl, &self.loaded.library))
        {
            let value = match &default.kind {
                ExprKind::Name(n) if is_algorithm && rng.chance(25) => {
                    // An algorithm that serves every collective that the default serves.
                    let Some(wanted) = self.names.get(n) else { continue };
                    let fit = self.names.iter().filter(|(_, serves)| wanted.is_subset(serves)).map(|x| x.0);
                    rng.pick(&fit.collect::<Vec<_>>()).to_string()
                }
                ExprKind::Int(i) if rng.chance(50) => (-i).to_string(),
                _ => continue,
            };
            args.push(format!("{}: {value}", name.node));
        }
        let name = &decl.name.node;
        let mut out = if args.is_empty() { name.clone() } else { format!("{name}({})", args.join(", ")) };
        let mut options = vec![];
        if rng.chance(15) {
            options.push(format!("memory: {}", rng.pick(&["hbm", "sram", "tcm"])));
        }
        if rng.chance(25) {
            options.push("transfer: pull".to_owned());
        }
        for cut in ["pipeline", "instances"] {
            if rng.chance(8) {
                options.push(format!("{cut}: {}", 2 + rng.below(2)));
            }
        }
        if !options.is_empty() {
            out += &format!(" with ({})", options.join(", "));
        }
        Some(out)
    }
}
