//! Views: the groups of an `apply`, along axes or given by a map from new coordinates to ranks.

use super::builder::{Builder, Frame};
use super::group::{Group, digits};
use super::sym::{Bindings, IntoStop, Res, Sym, not_symbolic};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_rounds::ast::{self, AlgorithmDecl, Ident};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Matches the algorithm's axes with the sizes of a view. Returns true if the algorithm has one
/// axis and sees the linear order of several.
fn fit_axes(decl: &AlgorithmDecl, sizes: &[i64], span: Span) -> Res<bool> {
    if decl.axes.len() == sizes.len() {
        return Ok(false);
    }
    if decl.axes.len() == 1 {
        return Ok(true);
    }
    Err(Diagnostic::error(
        "E022",
        format!("`{}` works on {} axes, and the view has {}", decl.name.node, decl.axes.len(), sizes.len()),
    )
    .primary(span, "this view")
    .secondary(decl.head, "declared here")
    .into_stop())
}

/// Returns the groups along axes of the frame's group. The other coordinates are kept.
pub(in crate::expand) fn axes_view(
    names: &[Ident],
    decl: &AlgorithmDecl,
    frame: &Frame<'_>,
    span: Span,
) -> Res<Group> {
    let mut at = vec![];
    for n in names {
        // An axis is found by the name of its coordinate in the frame, which stands for the
        // coordinate of the group.
        let found = frame.axis(&n.node);
        match found {
            Some(i) => at.push(i),
            None => {
                return Err(Diagnostic::error("E005", format!("`{}` is not an axis here", n.node))
                    .primary(n.span, "unknown axis")
                    .into_stop());
            }
        }
    }
    let parent = frame.group.clone();
    let sizes: Vec<i64> = at.iter().map(|&i| parent.sizes[i]).collect();
    let own: Vec<Expr> = at.iter().map(|&i| parent.own[i].clone()).collect();
    let joined = fit_axes(decl, &sizes, span)?;
    let wraps: Vec<bool> = decl.axes.iter().map(|a| a.wraps).collect();
    let direct = parent.direct.as_ref().filter(|_| !joined).map(|d| at.iter().map(|&i| d[i]).collect());
    let place = {
        let (parent, at) = (parent.clone(), at.clone());
        move |c: &[Expr]| {
            let mut all = parent.own.clone();
            for (i, e) in at.iter().zip(c) {
                all[*i] = e.clone();
            }
            parent.region_coords(&all)
        }
    };
    Ok(if joined {
        let total = sizes.iter().product();
        let linear = sizes.iter().zip(&own).fold(Expr::Int(0), |acc, (s, c)| acc * Expr::Int(*s) + c.clone());
        Group {
            sizes: vec![total],
            wraps,
            own: vec![linear],
            member: None,
            to_region: Rc::new(move |c| place(&digits(&sizes, &c[0]))),
            direct: None,
        }
    } else {
        Group { sizes, wraps, own, member: None, to_region: Rc::new(place), direct }
    })
}

/// Returns the groups given by a map from new coordinates to ranks. The inverse is found by
/// evaluating the map on every rank and recognising a closed form; otherwise it becomes a table.
pub(in crate::expand) fn map_view(
    vars: &[(Ident, ast::Expr)],
    to: &ast::Expr,
    decl: &AlgorithmDecl,
    frame: &Frame<'_>,
    b: &mut Builder<'_>,
    span: Span,
) -> Res<Group> {
    let parent = frame.group.clone();
    let mut sizes = vec![];
    let mut env: Bindings = frame.env.clone();
    let mut names: Vec<Name> = vec![];
    for (v, e) in vars {
        match b.cx.eval.int(e, &frame.env)?.as_int() {
            Some(k) if k >= 1 => sizes.push(k),
            _ => return not_symbolic("a view whose sizes are not constant", e.span),
        }
        let name = b.cx.fresh.name(&v.node);
        env.push((v.node.clone(), Sym::Int(Expr::Var(name.clone()))));
        names.push(name);
    }
    let joined = fit_axes(decl, &sizes, span)?;
    let image = match b.cx.eval.eval(to, &env)? {
        Sym::Int(e) => vec![e],
        Sym::Rank(c) => c,
        Sym::Alg(_) => return not_symbolic("a view whose result is not a rank", to.span),
    };
    if image.len() != parent.sizes.len() {
        return Err(Diagnostic::error("E020", format!("a rank has {} coordinates here", parent.sizes.len()))
            .primary(to.span, "this rank")
            .into_stop());
    }
    let image: Vec<Expr> = image
        .iter()
        .zip(parent.sizes.iter().zip(&parent.wraps))
        .map(|(e, (size, wraps))| if *wraps { b.cx.ranges.wrap(e, &Expr::Int(*size)) } else { e.clone() })
        .collect();
    let (own, member) = invert(&names, &sizes, &image, &parent, b, span)?;
    let place = {
        let (parent, names) = (parent.clone(), names.clone());
        move |c: &[Expr]| {
            let f = |n: &Name| names.iter().position(|m| m == n).map(|i| c[i].clone());
            let at: Vec<Expr> = image.iter().map(|e| e.subst(&f)).collect();
            parent.region_coords(&at)
        }
    };
    let wraps: Vec<bool> = decl.axes.iter().map(|a| a.wraps).collect();
    Ok(if joined {
        let total = sizes.iter().product();
        let linear = sizes.iter().zip(&own).fold(Expr::Int(0), |acc, (s, c)| acc * Expr::Int(*s) + c.clone());
        Group {
            sizes: vec![total],
            wraps,
            own: vec![linear],
            member,
            to_region: Rc::new(move |c| place(&digits(&sizes, &c[0]))),
            direct: None,
        }
    } else {
        Group { sizes, wraps, own, member, to_region: Rc::new(place), direct: None }
    })
}

/// Largest number of pairs (rank, value) for which the inverse of a view is tabulated.
const MAX_PAIRS: i64 = 1 << 22;

/// Returns this rank's coordinates in a view, and the condition that the rank belongs to it.
fn invert(
    names: &[Name],
    sizes: &[i64],
    image: &[Expr],
    parent: &Group,
    b: &mut Builder<'_>,
    span: Span,
) -> Res<(Vec<Expr>, Option<Expr>)> {
    let world = b.world.clone();
    let (ranks, values) = (world.ranks(), sizes.iter().product::<i64>());
    if let ([name], [Expr::Var(v)]) = (names, image)
        && name == v
    {
        // The identity: the first ranks keep their numbers.
        let own = parent.own[0].clone();
        let member = (sizes[0] < parent.sizes[0])
            .then(|| Expr::bin(kbc_ir::expr::BinOp::Lt, own.clone(), Expr::Int(sizes[0])));
        return Ok((vec![own], member));
    }
    // A view that is the same for every rank is evaluated once for each of its values.
    let own_view = image.iter().any(|e| world.coords.iter().any(|(n, _)| e.mentions(n)));
    if own_view && ranks * values > MAX_PAIRS {
        return not_symbolic("a view too large to be inverted", span);
    }
    let coordinates = |v: i64| {
        let mut rest = v;
        let mut c = vec![0; sizes.len()];
        for i in (0..sizes.len()).rev() {
            c[i] = rest % sizes[i];
            rest /= sizes[i];
        }
        c
    };
    let at_value = |c: &[i64], here: &dyn Fn(&Name) -> Option<i64>| {
        let with = |n: &Name| names.iter().position(|m| m == n).map(|i| c[i]).or_else(|| here(n));
        image.iter().map(|e| e.eval(&with)).collect::<Result<Vec<i64>, _>>()
    };
    let mut places: BTreeMap<Vec<i64>, i64> = BTreeMap::new();
    for v in 0..if own_view { 0 } else { values } {
        match at_value(&coordinates(v), &|_| None) {
            Ok(to) => drop(places.entry(to).or_insert(v)),
            Err(_) => return not_symbolic("a view that depends on a loop", span),
        }
    }
    let mut found: Vec<Option<Vec<i64>>> = vec![];
    for rank in 0..ranks {
        let at = world.split(rank);
        let here = |n: &Name| world.coords.iter().position(|(m, _)| m == n).map(|i| at[i]);
        let Ok(mine) = parent.own.iter().map(|e| e.eval(&here)).collect::<Result<Vec<i64>, _>>() else {
            return not_symbolic("a view inside a loop", span);
        };
        let mut hit = places.get(&mine).map(|v| coordinates(*v));
        for v in 0..if own_view { values } else { 0 } {
            let c = coordinates(v);
            match at_value(&c, &here) {
                Ok(to) if to == mine => {
                    hit = Some(c);
                    break;
                }
                Ok(_) => {}
                Err(_) => return not_symbolic("a view that depends on a loop", span),
            }
        }
        found.push(hit);
    }
    let fits = |e: &Expr, want: &dyn Fn(&Option<Vec<i64>>) -> Option<i64>| {
        (0..ranks).all(|r| {
            let at = world.split(r);
            let here = |n: &Name| world.coords.iter().position(|(m, _)| m == n).map(|i| at[i]);
            want(&found[r as usize]).is_none_or(|w| e.eval(&here) == Ok(w))
        })
    };
    let mut own = vec![];
    for i in 0..sizes.len() {
        let want = |f: &Option<Vec<i64>>| f.as_ref().map(|c| c[i]);
        let mut candidates = vec![];
        for base in parent.own.iter().chain(&world.own()) {
            candidates.push(base.clone());
            candidates.push(base.clone() - Expr::Int(1));
            candidates.push(Expr::Int(parent.sizes[0] - 1) - base.clone());
            let mut strides = vec![1];
            strides.extend((0..sizes.len()).map(|j| sizes[j + 1..].iter().product::<i64>()));
            strides.extend((0..sizes.len()).map(|j| sizes[..j].iter().product::<i64>()));
            for s in strides {
                candidates.push(base.clone() / Expr::Int(s));
                candidates.push((base.clone() / Expr::Int(s)).modulo(sizes[i]));
            }
        }
        match candidates.into_iter().find(|c| fits(c, &want)) {
            Some(e) => own.push(e),
            None => {
                let values = found.iter().map(|f| f.as_ref().map_or(0, |c| c[i])).collect();
                own.push(b.table("view", values));
            }
        }
    }
    if found.iter().all(Option::is_some) {
        return Ok((own, None));
    }
    let member = |f: &Option<Vec<i64>>| Some(f.is_some() as i64);
    let below = Expr::bin(kbc_ir::expr::BinOp::Lt, parent.own[0].clone(), Expr::Int(values));
    let member = if fits(&below, &member) {
        below
    } else {
        let values = found.iter().map(|f| f.is_some() as i64).collect();
        b.table("member", values)
    };
    Ok((own, Some(member)))
}
