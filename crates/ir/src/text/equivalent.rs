//! Equality of modules, with or without source locations.

use crate::graph::{Collective, DataSource, Expect, Graph, GraphOp, Input, OpKind};
use crate::local::{Local, LocalPart};
use crate::module::{Body, Module};
use crate::schedule::{SStmt, Schedule};
use kbc_diag::Span;

/// Checks whether two modules are equal except for source locations. Operations of graphs are
/// compared in issue order, whatever their numbers are.
pub fn equivalent(a: &Module, b: &Module) -> bool {
    same(a, b, false)
}

/// Checks whether two modules are equal, including source locations.
pub fn identical(a: &Module, b: &Module) -> bool {
    same(a, b, true)
}

fn same(a: &Module, b: &Module, spans: bool) -> bool {
    let heads = a.name == b.name && a.machine == b.machine && a.mesh == b.mesh && a.props == b.props;
    let heads = heads && a.attributes == b.attributes;
    heads
        && match (&a.body, &b.body) {
            (Body::Graph(x), Body::Graph(y)) => same_graph(x, y, spans),
            (Body::Local(x), Body::Local(y)) => same_local(x, y, spans),
            (Body::Schedule(x), Body::Schedule(y)) if spans => x == y,
            (Body::Schedule(x), Body::Schedule(y)) => bare_schedule(x) == bare_schedule(y),
            _ => false,
        }
}

fn same_local(a: &Local, b: &Local, spans: bool) -> bool {
    let part = |(x, y): (&LocalPart, &LocalPart)| {
        x.ranks == y.ranks && (!spans || x.span == y.span) && same_graph(&x.graph, &y.graph, spans)
    };
    a.name == b.name && a.parts.len() == b.parts.len() && a.parts.iter().zip(&b.parts).all(part)
}

fn same_graph(a: &Graph, b: &Graph, spans: bool) -> bool {
    let inputs = |g: &Graph| -> Vec<Input> {
        let mut list = g.inputs.clone();
        if !spans {
            for i in &mut list {
                i.span = Span::NONE;
                i.data.iter_mut().for_each(bare_data);
            }
        }
        list
    };
    let expect = |g: &Graph| -> Option<Expect> {
        let mut e = g.expect.clone();
        if !spans {
            e.iter_mut().flat_map(|e| &mut e.data).for_each(bare_data);
        }
        e
    };
    let ops = |g: &Graph| -> Vec<(GraphOp, Vec<usize>)> {
        g.order()
            .iter()
            .map(|id| {
                let mut op = g.op(*id).clone();
                if !spans {
                    op.span = Span::NONE;
                    if let OpKind::Collective(Collective { using: Some(u), .. }) = &mut op.kind {
                        // Whether `select` chose the algorithm is part of the module; its location
                        // is not.
                        let place =
                            if u.span.is_none() { Span::NONE } else { Span { file: ANY, start: 0, end: 0 } };
                        u.span = place;
                    }
                }
                (op, g.operands(*id).into_iter().map(|o| g.position(o)).collect())
            })
            .collect()
    };
    a.name == b.name
        && a.results == b.results
        && inputs(a) == inputs(b)
        && expect(a) == expect(b)
        && ops(a) == ops(b)
}

/// File number that stands for any location.
const ANY: kbc_diag::FileId = kbc_diag::FileId(0);

fn bare_data(d: &mut DataSource) {
    match d {
        DataSource::File { span, .. } | DataSource::Generator { span, .. } => *span = Span::NONE,
    }
}

fn bare_schedule(s: &Schedule) -> Schedule {
    let mut s = s.clone();
    s.buffers.iter_mut().for_each(|b| b.span = Span::NONE);
    s.windows.iter_mut().for_each(|w| w.span = Span::NONE);
    s.signals.iter_mut().for_each(|g| g.span = Span::NONE);
    s.queues.iter_mut().for_each(|q| q.span = Span::NONE);
    if let Some(h) = &mut s.host {
        h.span = Span::NONE;
        bare_body(&mut h.body);
    }
    for r in &mut s.regions {
        r.span = Span::NONE;
        r.roles.iter_mut().flat_map(|r| &mut r.streams).for_each(|st| bare_body(&mut st.body));
    }
    s
}

fn bare_body(list: &mut [SStmt]) {
    for st in list {
        match st {
            SStmt::For { body, .. } => bare_body(body),
            SStmt::If { then, other, .. } => {
                bare_body(then);
                bare_body(other);
            }
            SStmt::Op(_, span) => *span = Span::NONE,
        }
    }
}
