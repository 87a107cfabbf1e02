//! Rule V21 for the host's program, on every path through its conditions.

use super::names::depends;
use super::{Report, V2, V21};
use crate::host::HOST;
use crate::schedule::*;
use crate::uses::writes;
use kbc_diag::{Diagnostic, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Events on one path through the program.
#[derive(Clone, Default)]
struct PathEvents {
    launched: BTreeMap<u32, Span>,
    /// Regions that are launched and not waited for.
    open: BTreeSet<u32>,
    /// Buffers that the host has read.
    read: BTreeSet<u32>,
    /// Buffers that the host has written.
    written: BTreeSet<u32>,
}

pub(super) fn host(s: &Schedule, out: &mut Report) {
    let Some(h) = &s.host else { return };
    let mut c = Checker { s, out };
    for r in &s.regions {
        if r.roles.iter().flat_map(|x| &x.streams).any(|st| st.name.as_str() == HOST) {
            let help = "in a schedule with a host section, `host` is the name of the host's stream";
            c.fail(format!("region {} has a stream `{HOST}`", r.name), r.span, "in this region", None, help);
        }
    }
    let mut path = PathEvents::default();
    c.list(&h.body, &mut path, h.span);
    let program = Some((h.span, "the host's program"));
    for (i, r) in s.regions.iter().enumerate() {
        match path.launched.get(&(i as u32)) {
            None => {
                let help = "launch it or remove it: a region runs only if the host launches it";
                c.fail(format!("region {} is never launched", r.name), r.span, "this region", program, help);
            }
            Some(at) if path.open.contains(&(i as u32)) => {
                let help = "end the host section with `host.drain`: a call ends when every launched region has ended";
                c.fail(
                    format!("the host never waits for region {}", r.name),
                    *at,
                    "launched here",
                    None,
                    help,
                );
            }
            Some(_) => {}
        }
    }
    for (i, b) in s.buffers.iter().enumerate() {
        if matches!(b.role, BufferRole::Output(_)) && !path.read.contains(&(i as u32)) {
            let text = format!("the host never reads %{}", b.name);
            let help =
                "every path through the host section must end with a `host.read` of the result's buffer";
            c.fail(text, b.span, "this is a result of the program", program, help);
        }
    }
}

struct Checker<'a, 'o> {
    s: &'a Schedule,
    out: &'o mut Report,
}

impl Checker<'_, '_> {
    fn fail(&mut self, title: String, at: Span, label: &str, other: Option<(Span, &str)>, help: &str) {
        let mut d = Diagnostic::error(V21.1, title).primary(at, label);
        if let Some((span, label)) = other {
            d = d.secondary(span, label);
        }
        self.out.push(V21, d.help(help));
    }

    fn list(&mut self, list: &[SStmt], path: &mut PathEvents, outer: Span) {
        for st in list {
            match st {
                SStmt::For { var, body, lo: _, hi: _ } => {
                    let at = first(body).unwrap_or(outer);
                    let text = format!("a loop over {var} in the host section");
                    let help =
                        "a region can be launched only once per call: write the statements without a loop";
                    self.fail(text, at, "in the loop around this line", None, help);
                }
                SStmt::If { cond, then, other } => {
                    let at = first(then).or_else(|| first(other)).unwrap_or(outer);
                    let mut names = vec![CALL];
                    names.extend(self.s.mesh.axes.iter().map(|a| a.name.as_str()));
                    depends(self.s, cond, &names, "a condition of the host's program", at, self.out);
                    let (mut a, mut b) = (path.clone(), path.clone());
                    self.list(then, &mut a, at);
                    self.list(other, &mut b, at);
                    self.join(path, a, b);
                }
                SStmt::Op(op, span) => self.operation(op, *span, path),
            }
        }
    }

    /// Joins the two paths of a condition. Launched and open regions are those of either path, and
    /// a region that only one path launches is reported. Buffers count as read or written if they
    /// are so on both paths.
    fn join(&mut self, path: &mut PathEvents, a: PathEvents, b: PathEvents) {
        for (x, y) in [(&a, &b), (&b, &a)] {
            for (r, at) in x.launched.iter().filter(|(r, _)| !y.launched.contains_key(r)) {
                let text = format!("region {} is launched only in one branch", self.name(*r));
                let help = "launch it in both branches, or outside of the `if`; a rank without a role in a region may launch it too";
                self.fail(text, *at, "here", None, help);
            }
        }
        path.launched = a.launched;
        path.launched.extend(b.launched);
        path.open = a.open;
        path.open.extend(b.open);
        path.read = a.read.intersection(&b.read).copied().collect();
        path.written = a.written.intersection(&b.written).copied().collect();
    }

    fn name(&self, r: u32) -> String {
        self.s.regions[r as usize].name.to_string()
    }

    /// Returns the number of a region if it exists, and reports it otherwise.
    fn region(&mut self, r: RegionId, span: Span) -> Option<u32> {
        let known = (r.0 as usize) < self.s.regions.len();
        if !known {
            self.out.fail(V2, format!("region {} does not exist", r.0), span, "here");
        }
        known.then_some(r.0)
    }

    fn operation(&mut self, op: &SOp, span: Span, path: &mut PathEvents) {
        let command = match op {
            SOp::Host(command) => command,
            SOp::HostRead(b) => {
                if self.holds(*b, span, path) {
                    path.read.insert(b.0);
                }
                return;
            }
            SOp::Copy { dst: _, src: _ }
            | SOp::Reduce { op: _, dst: _, src: _ }
            | SOp::Put { src: _, peer: _, dst: _ }
            | SOp::Get { dst: _, peer: _, src: _ }
            | SOp::GetCombine { op: _, dst: _, peer: _, src: _ }
            | SOp::Send { src: _, peer: _, queue: _ }
            | SOp::Recv { dst: _, peer: _, queue: _ }
            | SOp::Room { peer: _, queue: _ }
            | SOp::Notify { peer: _, counter: _ }
            | SOp::Wait { counter: _, value: _ }
            | SOp::FenceRelease
            | SOp::FenceAcquire
            | SOp::FenceComplete
            | SOp::Record(_)
            | SOp::Await(_)
            | SOp::Local(_)
            | SOp::Mark(_) => {
                let help =
                    "the host can only launch, read, write and wait; put other operations into regions";
                let text = "this operation is not allowed in the host section".to_string();
                return self.fail(text, span, "here", None, help);
            }
        };
        match command {
            HostCommand::Launch(r) => {
                let Some(r) = self.region(*r, span) else { return };
                match path.launched.get(&r).copied() {
                    Some(before) => {
                        let help = "a region runs once per call; for a second run write a second region";
                        let text = format!("region {} is launched twice", self.name(r));
                        self.fail(text, span, "again here", Some((before, "first here")), help);
                    }
                    None => {
                        path.launched.insert(r, span);
                        path.open.insert(r);
                    }
                }
            }
            HostCommand::Wait(r) => {
                let Some(r) = self.region(*r, span) else { return };
                if !path.launched.contains_key(&r) {
                    let text = format!("region {} is waited for before it is launched", self.name(r));
                    self.fail(text, span, "here", None, "launch it first");
                }
                path.open.remove(&r);
            }
            HostCommand::Drain => path.open.clear(),
            HostCommand::Write { dst, src } => self.write(*dst, *src, span, path),
        }
    }

    /// Checks that a buffer exists, and reports it otherwise.
    fn known(&mut self, id: BufferId, span: Span) -> bool {
        let known = (id.0 as usize) < self.s.buffers.len();
        if !known {
            self.out.fail(V2, format!("buffer {} does not exist", id.0), span, "here");
        }
        known
    }

    fn write(&mut self, dst: BufferId, src: BufferId, span: Span, path: &mut PathEvents) {
        if !self.holds(src, span, path) || !self.known(dst, span) {
            return;
        }
        let (to, from) = (self.s.buffer(dst), self.s.buffer(src));
        if dst == src {
            let text = format!("the host writes %{} into itself", to.name);
            self.fail(text, span, "here", None, "name another buffer, or remove this line");
        } else if (to.dtype, &to.dims) != (from.dtype, &from.dims) {
            let text =
                format!("the host writes %{} into %{}, which has another type or size", from.name, to.name);
            let other = Some((to.span, "written"));
            self.fail(
                text,
                span,
                "here",
                other,
                "both buffers need the same element type and the same local sizes",
            );
        }
        path.written.insert(dst.0);
    }

    /// Checks that a buffer whose elements the host takes exists. Reports the buffer if nothing has
    /// written it before.
    fn holds(&mut self, id: BufferId, span: Span, path: &PathEvents) -> bool {
        if !self.known(id, span) {
            return false;
        }
        let s = self.s;
        let b = s.buffer(id);
        let filled = b.zero || matches!(b.role, BufferRole::Input(_)) || path.written.contains(&id.0);
        let mut writers = (0..).zip(&s.regions).filter(|(_, r)| writes(r, id));
        if filled || writers.clone().any(|(i, _)| path.launched.contains_key(&i)) {
            return true;
        }
        let text = format!("the host reads %{}, and no region launched before writes it", b.name);
        match writers.next() {
            Some((_, r)) => {
                let other = Some((r.span, "this region writes it"));
                self.fail(text, span, "here", other, "launch the region first");
            }
            None => {
                let other = Some((b.span, "no region writes it"));
                self.fail(text, span, "here", other, "read a buffer that a region writes");
            }
        }
        true
    }
}

/// Returns the location of the first operation.
fn first(list: &[SStmt]) -> Option<Span> {
    list.iter().find_map(|st| match st {
        SStmt::Op(_, span) => Some(*span),
        SStmt::For { body, var: _, lo: _, hi: _ } => first(body),
        SStmt::If { then, other, cond: _ } => first(then).or_else(|| first(other)),
    })
}
