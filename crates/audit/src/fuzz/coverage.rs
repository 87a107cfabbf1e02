//! Coverage of random programs: how many of them had each element type, operation, function,
//! algorithm.

use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::scalar::{Compare, Scalar};
use kbc_ir::schedule::{Ref, Region, SOp, SStmt, Schedule};
use kbc_ir::types::CutRule;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Number of programs by feature.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage(BTreeMap<(&'static str, String), u64>);

type Features = BTreeSet<(&'static str, String)>;

fn compare(c: &Compare, out: &mut Features) {
    out.insert(("comparison", c.op.symbol().into()));
    scalar(&c.a, out);
    scalar(&c.b, out);
}

fn scalar(e: &Scalar, out: &mut Features) {
    match e {
        Scalar::Num(_) => drop(out.insert(("function", "number".into()))),
        Scalar::Arg(_) => {}
        Scalar::Un(f, a) => {
            out.insert(("function", f.name().into()));
            scalar(a, out);
        }
        Scalar::Bin(f, a, b) => {
            out.insert(("function", f.name().into()));
            scalar(a, out);
            scalar(b, out);
        }
        Scalar::Pow(a, _) => {
            out.insert(("function", "pow_int".into()));
            scalar(a, out);
        }
        Scalar::If(c, a, b) => {
            compare(c, out);
            scalar(a, out);
            scalar(b, out);
        }
    }
}

fn graph(g: &Graph, out: &mut Features) {
    for &id in g.order() {
        let op = g.op(id);
        if let OpKind::Fill(f) = &op.kind {
            out.insert(("fill", f.dtype.to_string()));
        }
        let operand = g.operands(id).first().and_then(|o| g.op(*o).ty.clone());
        let (Some(from), Some(to)) = (operand, &op.ty) else { continue };
        match &op.kind {
            OpKind::Matmul { .. } => drop(out.insert(("matmul", format!("{} to {}", from.dtype, to.dtype)))),
            OpKind::Map(f) => scalar(&f.body, out),
            OpKind::ReduceDim { op, mean, .. } => {
                let name = if *mean { "mean" } else { op.name() };
                out.insert(("dimension", format!("{name} {}", from.dtype)));
            }
            OpKind::Cast(_) => drop(out.insert(("cast", format!("{} to {}", from.dtype, to.dtype)))),
            OpKind::Embedding => drop(out.insert(("embedding", from.dtype.to_string()))),
            OpKind::Shape(s) => drop(out.insert(("shape", format!("{} {}", s.name(), to.dtype)))),
            OpKind::Grouped(_) => drop(out.insert(("matmul", format!("grouped {}", from.dtype)))),
            OpKind::Tiles(_) => drop(out.insert(("tiles", to.dtype.to_string()))),
            OpKind::Fill(_)
            | OpKind::Collective(_)
            | OpKind::Demand
            | OpKind::PartialDemand(_)
            | OpKind::Wait
            | OpKind::Host(_)
            | OpKind::Input(_)
            | OpKind::Output(_) => {}
        }
    }
}

fn statements(s: &Schedule, region: &Region, list: &[SStmt], out: &mut Features) {
    for st in list {
        match st {
            SStmt::For { body, .. } => statements(s, region, body, out),
            SStmt::If { then, other, .. } => {
                statements(s, region, then, out);
                statements(s, region, other, out);
            }
            SStmt::Op(SOp::Reduce { op, dst, .. }, _) => {
                let dtype = match dst {
                    Ref::Slot { window, .. } => Some(s.window(*window).dtype),
                    Ref::Chunk { operand, .. } => {
                        region.operands.get(operand.0 as usize).map(|o| s.buffer(o.buffer).dtype)
                    }
                };
                out.extend(dtype.map(|d| ("reduction", format!("{op} {d}"))));
            }
            SStmt::Op(SOp::Local(l), _) => {
                out.insert(("local", format!("{} {}", l.word(), s.buffer(l.dst()).dtype)));
            }
            SStmt::Op(op, _) => drop(out.insert(("statement", kbc_checker::mutate::word(op).into()))),
        }
    }
}

fn schedule(s: &Schedule, out: &mut Features) {
    out.insert(("ranks", s.mesh.ranks().to_string()));
    out.insert(("axes", s.mesh.axes.len().to_string()));
    for b in &s.buffers {
        out.insert(("type", b.dtype.to_string()));
        let Some(global) = &b.global else { continue };
        let n = global.elements();
        let class = match n {
            0 => "none",
            1 => "one",
            2..=1024 => "to 1024",
            _ => "more",
        };
        out.insert(("elements", class.into()));
        if global.partial.is_some() {
            out.insert(("placement", "partial".into()));
        }
        if global.only.is_some() {
            out.insert(("placement", "only".into()));
        }
        for cut in global.dims.iter().filter_map(|d| d.cut.as_ref()) {
            let rule = match cut.rule {
                CutRule::Even => "",
                CutRule::Ceil => " (ceil)",
                CutRule::Lengths(_) => " (lengths)",
                CutRule::Lines(_) => " (lines)",
            };
            out.insert(("placement", format!("split {}{rule}", cut.axes.len())));
        }
    }
    for w in &s.windows {
        out.insert(("memory", w.memory.to_string()));
    }
    for q in &s.queues {
        out.insert(("queue", format!("{} {}", q.memory, q.dtype)));
    }
    for r in &s.regions {
        if let Some(p) = &r.contract {
            let label = r.label.as_deref().unwrap_or("unnamed");
            // The name without parameters and options.
            let name = label.split('(').next().unwrap_or(label);
            out.insert(("algorithm", format!("{} {name}", p.collective)));
        }
        r.roles.iter().flat_map(|role| &role.streams).for_each(|st| statements(s, r, &st.body, out));
    }
}

impl Coverage {
    /// Counts the features of a program.
    pub fn program(&mut self, typed: Option<&Graph>, made: &Schedule) {
        let mut out = Features::new();
        if let Some(g) = typed {
            graph(g, &mut out);
        }
        schedule(made, &mut out);
        self.count(out);
    }

    /// Counts one more feature.
    pub fn note(&mut self, group: &'static str, name: String) {
        self.count(Features::from([(group, name)]));
    }

    fn count(&mut self, features: Features) {
        for f in features {
            *self.0.entry(f).or_insert(0) += 1;
        }
    }

    /// Returns the number of programs with a feature.
    pub fn of(&self, group: &'static str, name: &str) -> u64 {
        self.0.get(&(group, name.to_owned())).copied().unwrap_or(0)
    }

    /// Formats the counts, one line per group.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let groups: BTreeSet<&str> = self.0.keys().map(|k| k.0).collect();
        for group in groups {
            let all: Vec<String> =
                self.0.iter().filter(|(k, _)| k.0 == group).map(|(k, n)| format!("{} {n}", k.1)).collect();
            let _ = writeln!(out, "  {group}: {}", all.join(", "));
        }
        out
    }
}
