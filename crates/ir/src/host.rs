//! The host's program of a schedule: what a rank's host launches, reads, writes and waits for, in
//! order.
//!
//! The module owns the meaning of [`crate::schedule::Host`]. [`with_host_region`] rewrites the
//! host's program as an additional region with a stream of its own, using `record`, `await` and
//! `copy`. Code that walks schedules therefore meets only one new operation, the read itself.
//! [`crate::verify`] decides which host programs are well-formed (rule V21).

use crate::expr::{BinOp, Expr};
use crate::name::Name;
use crate::schedule::{HostCommand, LocalOp, RankSet, Region, RegionId, Role, SOp, SStmt, Schedule, Stream};
use crate::uses::{touches, writes};
use kbc_diag::{Diagnostic, Span};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Name of the stream of the host's program, and of its region in spelled form.
pub const HOST: &str = "host";

/// Returns the schedule with its host's program spelled out, for [`crate::walk::Program::compile`].
/// A schedule without one is returned unchanged.
///
/// Every stream of a region begins with an `await` of the region's launch and ends with a `record`
/// of its end there. The host's program is the last region; it is local and has one stream,
/// [`HOST`]. `host.launch` becomes the `record`. A wait becomes an `await` for every stream that
/// the rank has in the region. A read or write is preceded by `fence.acquire`, because peers may
/// have written the buffer directly; a write is a local `copy`. Regions keep their numbers.
pub fn with_host_region(s: &Schedule) -> Cow<'_, Schedule> {
    let Some(host) = s.host.as_ref().filter(|_| !has_host_region(s)) else { return Cow::Borrowed(s) };
    let names = Names::new(s);
    let mut out = s.clone();
    for (i, r) in out.regions.iter_mut().enumerate() {
        let id = RegionId(i as u32);
        for st in r.roles.iter_mut().flat_map(|x| &mut x.streams) {
            st.body.insert(0, SStmt::Op(SOp::Await(names.launch(s, id)), r.span));
            st.body.push(SStmt::Op(SOp::Record(names.end(s, id, &st.name)), r.span));
        }
    }
    let body = Writer { s, names }.body(&host.body, &mut vec![]);
    out.regions.push(Region {
        name: HOST.into(),
        over: vec![],
        coords: s.mesh.axes.iter().map(|a| (a.name.clone(), a.size)).collect(),
        operands: vec![],
        contract: None,
        label: None,
        after: vec![],
        roles: vec![Role {
            name: "all".into(),
            ranks: RankSet::All,
            streams: vec![Stream { name: HOST.into(), body }],
        }],
        span: host.span,
    });
    Cow::Owned(out)
}

/// Checks whether the last region is the spelled form of the host's program.
pub fn has_host_region(s: &Schedule) -> bool {
    let of_host = |r: &Region| {
        let mut streams = r.roles.iter().flat_map(|x| &x.streams);
        r.name.as_str() == HOST && streams.any(|st| st.name.as_str() == HOST)
    };
    s.host.is_some() && s.regions.last().is_some_and(of_host)
}

/// Creates E330 for an operation of the host's program outside of it.
pub(crate) fn misplaced_host_op(span: Span) -> Diagnostic {
    Diagnostic::error("E330", "a host operation outside the section `host`")
        .primary(span, "here")
        .help("write `host.launch`, `host.read`, `host.write`, `host.wait` and `host.drain` in the section `host` of the schedule")
}

/// Names of the events of launches and ends, distinct from all events of the schedule.
struct Names {
    mark: String,
}

impl Names {
    fn new(s: &Schedule) -> Names {
        fn collect<'a>(list: &'a [SStmt], out: &mut BTreeSet<&'a str>) {
            for st in list {
                match st {
                    SStmt::For { body, .. } => collect(body, out),
                    SStmt::If { then, other, .. } => {
                        collect(then, out);
                        collect(other, out);
                    }
                    SStmt::Op(SOp::Record(e) | SOp::Await(e), _) => {
                        out.insert(e.as_str());
                    }
                    SStmt::Op(..) => {}
                }
            }
        }
        let mut used = BTreeSet::new();
        s.regions
            .iter()
            .flat_map(|r| &r.roles)
            .flat_map(|r| &r.streams)
            .for_each(|st| collect(&st.body, &mut used));
        let mut mark = String::new();
        while used.iter().any(|e| {
            e.starts_with(&format!("the{mark} launch of ")) || e.starts_with(&format!("the{mark} end of "))
        }) {
            mark.push('\'');
        }
        Names { mark }
    }

    /// Returns the printed name of a region. Regions that share a name are distinguished by a
    /// number.
    fn region(s: &Schedule, r: RegionId) -> String {
        let name = &s.regions[r.0 as usize].name;
        let earlier = s.regions[..r.0 as usize].iter().filter(|x| x.name == *name).count();
        if earlier == 0 { format!("@{name}") } else { format!("@{name}#{earlier}") }
    }

    fn launch(&self, s: &Schedule, r: RegionId) -> Name {
        format!("the{} launch of {}", self.mark, Names::region(s, r)).into()
    }

    fn end(&self, s: &Schedule, r: RegionId, stream: &Name) -> Name {
        format!("the{} end of {} on stream {stream}", self.mark, Names::region(s, r)).into()
    }
}

struct Writer<'a> {
    s: &'a Schedule,
    names: Names,
}

impl Writer<'_> {
    /// Spells out statements. `launched` lists the regions launched before them, and is extended by
    /// those that they launch.
    fn body(&self, list: &[SStmt], launched: &mut Vec<RegionId>) -> Vec<SStmt> {
        let mut out = vec![];
        for st in list {
            match st {
                SStmt::For { var, lo, hi, body } => out.push(SStmt::For {
                    var: var.clone(),
                    lo: lo.clone(),
                    hi: hi.clone(),
                    body: self.body(body, launched),
                }),
                SStmt::If { cond, then, other } => {
                    let (mut a, mut b) = (launched.clone(), launched.clone());
                    out.push(SStmt::If {
                        cond: cond.clone(),
                        then: self.body(then, &mut a),
                        other: self.body(other, &mut b),
                    });
                    launched.extend(a.into_iter().chain(b).collect::<BTreeSet<_>>());
                    let mut seen = BTreeSet::new();
                    launched.retain(|r| seen.insert(*r));
                }
                SStmt::Op(op, span) => self.operation(op, *span, launched, &mut out),
            }
        }
        out
    }

    fn operation(&self, op: &SOp, span: Span, launched: &mut Vec<RegionId>, out: &mut Vec<SStmt>) {
        match op {
            SOp::Host(HostCommand::Launch(r)) => {
                out.push(SStmt::Op(SOp::Record(self.names.launch(self.s, *r)), span));
                launched.push(*r);
            }
            SOp::Host(HostCommand::Wait(r)) => self.over(*r, span, out),
            SOp::Host(HostCommand::Drain) => launched.iter().for_each(|r| self.over(*r, span, out)),
            SOp::HostRead(b) => {
                let producers = launched.iter().filter(|r| writes(&self.s.regions[r.0 as usize], *b));
                producers.for_each(|r| self.over(*r, span, out));
                out.push(SStmt::Op(SOp::FenceAcquire, span));
                out.push(SStmt::Op(SOp::HostRead(*b), span));
            }
            SOp::Host(HostCommand::Write { dst, src }) => {
                let pending = launched.iter().filter(|r| {
                    let region = &self.s.regions[r.0 as usize];
                    touches(region, *dst) || writes(region, *src)
                });
                pending.for_each(|r| self.over(*r, span, out));
                out.push(SStmt::Op(SOp::FenceAcquire, span));
                out.push(SStmt::Op(SOp::Local(LocalOp::Copy { dst: *dst, src: *src }), span));
            }
            other => out.push(SStmt::Op(other.clone(), span)),
        }
    }

    /// Appends an `await` of the region's end for every stream that the rank has there.
    fn over(&self, r: RegionId, span: Span, out: &mut Vec<SStmt>) {
        let region = &self.s.regions[r.0 as usize];
        let mut rest: Vec<SStmt> = vec![];
        for role in region.roles.iter().rev() {
            let ends = role.streams.iter().map(|st| self.names.end(self.s, r, &st.name));
            let then: Vec<SStmt> = ends.map(|e| SStmt::Op(SOp::Await(e), span)).collect();
            rest = match self.member(region, &role.ranks) {
                None => then,
                Some(cond) => vec![SStmt::If { cond, then, other: rest }],
            };
        }
        out.extend(rest);
    }

    /// Returns the condition, in mesh coordinates, for a rank to have a role; `None` if all ranks
    /// have it.
    fn member(&self, region: &Region, ranks: &RankSet) -> Option<Expr> {
        match ranks {
            RankSet::All => None,
            RankSet::Where(e) => {
                let coords = self.coords(region);
                Some(e.subst(&|n: &Name| coords.iter().find(|(c, _)| c == n).map(|(_, e)| e.clone())))
            }
            RankSet::List(list) => {
                let index = self.index(region);
                let is = |n: &u64| bin(BinOp::Eq, index.clone(), Expr::Int(*n as i64));
                Some(list.iter().map(is).reduce(|a, b| bin(BinOp::Or, a, b)).unwrap_or(Expr::Int(0)))
            }
        }
    }

    /// Returns the linear index in the region's group, as an expression in mesh coordinates.
    fn index(&self, region: &Region) -> Expr {
        let mesh = &self.s.mesh;
        let all: Vec<Name> = mesh.axes.iter().map(|a| a.name.clone()).collect();
        let axes = if region.over.is_empty() { &all } else { &region.over };
        axes.iter().fold(Expr::Int(0), |index, n| {
            let size = mesh.axis(n).map_or(1, |a| a.size as i64);
            bin(BinOp::Add, bin(BinOp::Mul, index, Expr::Int(size)), Expr::Var(n.clone()))
        })
    }

    /// Returns the region's coordinates as expressions in mesh coordinates.
    fn coords(&self, region: &Region) -> Vec<(Name, Expr)> {
        let index = self.index(region);
        let mut stride = 1i64;
        let mut out = vec![];
        for (name, size) in region.coords.iter().rev() {
            let digit = bin(BinOp::Div, index.clone(), Expr::Int(stride));
            out.push((name.clone(), bin(BinOp::Mod, digit, Expr::Int(*size as i64))));
            stride = stride.saturating_mul(*size as i64);
        }
        out
    }
}

fn bin(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::Bin(op, Arc::new(a), Arc::new(b))
}
