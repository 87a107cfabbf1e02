//! Machines and meshes: the machine of a program and the axes over it.
//!
//! This module lowers topologies with their settings, `--topology`, and meshes: the names and sizes
//! of axes, and the machine axes that they join. [`kbc_machine::topology`] owns generators,
//! settings and routes.
//!
//! `--topology` takes a shape or a machine file. It replaces the shape, and keeps the settings that
//! it does not state itself. A parameter that is a size of the replaced shape (`ring(tp)`) takes
//! the size of the new shape, so that types that use it still fit. If devices have failed, a
//! parameter that is the only size of the shape takes the number of those that are left.

use super::LowerOptions;
use super::choice::{MachineChoice, machine_choice, topology_of};
use super::params::Params;
use crate::ast::{self, MeshAxis, MeshDecl, TopologyDecl, TopologySource};
use crate::loaded::Loaded;
use crate::machine::MachineFile;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span, Spanned};
use kbc_ir::Name;
use kbc_ir::types::{Axis, Mesh};
use kbc_machine::policy::Placements;
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{
    Described, Dimension, OwnLink, Quantity, SHAPE_NAMES, SettingValue, Settings, Shape, ShapeArgument,
    StatedRoute, Topology, Written, device_count,
};
use kbc_rounds::ast::{Expr, ExprKind};
use kbc_rounds::eval::Fault;

/// The number of ranks of a program that names no topology.
const DEFAULT_RANKS: u32 = 4;

/// The axis of a program that names no mesh.
const DEFAULT_AXIS: &str = "tp";

/// A machine with the declared mesh over it.
pub(super) struct Machine<'a> {
    pub topology: Topology,
    pub perturb: Option<Perturb>,
    pub placements: Placements,
    pub chosen: Settings,
    mesh: Option<&'a MeshDecl>,
    /// The place of the shape in the source.
    at: Span,
}

/// Returns the machine of a file: its topology, the one of `--topology`, or a ring of four devices.
///
/// # Errors
/// Returns E005, E422, E44x, E463, or the errors of expressions of sizes.
pub(super) fn topology<'a>(
    loaded: &'a Loaded,
    root: FileId,
    options: &LowerOptions,
    params: &mut Params<'a>,
) -> Result<Machine<'a>, Diagnostics> {
    let MachineChoice { mesh, topology: decl, by_name } = machine_choice(loaded, root, options)?;
    let replaced = match (&options.topology, &options.machine) {
        (Some(_), _) if by_name => Parts::default(),
        (Some((text, file)), _) => {
            let Written { shape, settings, links, routes } = Topology::parse_shape(text, *file)?;
            Parts {
                shape: Some((shape, Span::new(*file, 0, text.len()))),
                settings,
                links,
                routes,
                ..Parts::default()
            }
        }
        (None, Some(file)) => Parts::of(file),
        (None, None) => Parts::default(),
    };
    if let (Some(d), Some((shape, _))) = (decl, &replaced.shape) {
        follow(loaded, d, shape, &replaced.settings, params)?;
    }
    let written = match decl.map(|d| (d, &d.source)) {
        Some((_, TopologySource::Shape(written, list))) => {
            let shape = match replaced.shape {
                Some(_) => None,
                None => Some((shape(written, params)?, written.span)),
            };
            Parts { shape, settings: settings(list)?, ..Parts::default() }
        }
        Some((d, TopologySource::File(path, list))) => {
            // A file that could not be read was reported by loading.
            let Some(file) = loaded.machine(path.span) else { return Err(Diagnostics::new()) };
            if replaced.shape.is_none() && file.shape.is_none() {
                return Err(Diagnostic::error("E463", "the machine file has no `shape`")
                    .primary(path.span, "this mesh needs the shape of the machine")
                    .secondary(d.name.span, "this topology")
                    .help("add a line such as `shape: ring(8)` to the file, or give a shape with --topology")
                    .into());
            }
            let parts = Parts::of(file);
            Parts { settings: settings(list)?.over(&parts.settings), ..parts }
        }
        None => Parts::default(),
    };
    let at = decl.map_or(Span::NONE, |d| d.name.span);
    let at = replaced.shape.as_ref().or(written.shape.as_ref()).map_or(at, |s| s.1);
    let perturb = replaced.perturb.clone().or(written.perturb.clone());
    let said = if replaced.placements.is_empty() { &written.placements } else { &replaced.placements };
    let placements = said.clone();
    let chosen = replaced.chosen.over(&written.chosen);
    let layers = [written.described(), replaced.described(), options.set.clone()];
    let topology = Described::stacked(layers, Shape::Ring(DEFAULT_RANKS), at)?;
    let topology = topology.with_placements(placements.clone());
    if let Some(d) = decl {
        follow_the_living(loaded, d, &topology, params);
    }
    others(loaded, root, decl, params)?;
    Ok(Machine { topology, perturb, placements, chosen, mesh, at })
}

/// Checks the topologies and meshes of a file that its program does not use.
///
/// # Errors
/// Fails as [`topology`] does.
fn others<'a>(
    loaded: &'a Loaded,
    root: FileId,
    used: Option<&TopologyDecl>,
    params: &mut Params<'a>,
) -> Result<(), Diagnostics> {
    let own = |d: &&TopologyDecl| d.name.span.file == root && used.is_none_or(|u| u.name.span != d.name.span);
    let list: Vec<&TopologyDecl> = loaded.topologies(root).filter(own).collect();
    for d in list {
        let (shape, settings) = match &d.source {
            TopologySource::Shape(written, list) => (Some(shape(written, params)?), settings(list)?),
            TopologySource::File(_, list) => (None, settings(list)?),
        };
        let described = Described { shape, settings, ..Described::default() };
        Described::stacked([described], Shape::Ring(DEFAULT_RANKS), d.name.span)?;
    }
    for mesh in loaded.meshes(root).filter(|m| m.name.span.file == root) {
        topology_of(loaded, mesh)?;
    }
    Ok(())
}

/// The parts that a topology or its replacement states. The shape has its place.
#[derive(Default)]
struct Parts {
    shape: Option<(Shape, Span)>,
    settings: Settings,
    links: Vec<OwnLink>,
    routes: Vec<StatedRoute>,
    perturb: Option<Perturb>,
    placements: Placements,
    chosen: Settings,
}

impl Parts {
    fn described(self) -> Described {
        let Parts { shape, settings, links, routes, .. } = self;
        Described { shape: shape.map(|s| s.0), settings, links, routes }
    }

    fn of(file: &MachineFile) -> Parts {
        Parts {
            shape: file.shape.as_ref().map(|s| (s.node.clone(), s.span)),
            settings: file.settings,
            links: file.links.clone(),
            routes: file.routes.clone(),
            perturb: file.perturb.clone(),
            placements: file.placements.clone(),
            chosen: file.chosen,
        }
    }
}

/// Updates parameters that are sizes of the written shape to the sizes of the shape that replaces
/// it. Sizes correspond by position. If only one size is written, it takes the number of devices.
fn follow(
    loaded: &Loaded,
    decl: &TopologyDecl,
    new: &Shape,
    settings: &Settings,
    params: &mut Params<'_>,
) -> Result<(), Fault> {
    let TopologySource::Shape(written, _) = &decl.source else { return Ok(()) };
    if written.parts.is_empty() || !sizes_an_axis(written) {
        return Ok(());
    }
    let sizes: Vec<i64> = if written.parts.len() == new.sizes().len() {
        new.sizes().iter().map(|&n| i64::from(n)).collect()
    } else if written.parts.len() == 1 {
        device_count(new, settings).and_then(|n| i64::try_from(n).ok()).into_iter().collect()
    } else {
        vec![]
    };
    for (part, size) in written.parts.iter().zip(sizes) {
        let ExprKind::Name(name) = &part.kind else { continue };
        if let Some(p) = loaded.param(part.span.file, name) {
            params.bind(p, size, &new.to_string())?;
        }
    }
    Ok(())
}

/// Updates the parameter that is the only size of the written shape to the number of devices that
/// are left, if some have failed.
fn follow_the_living(loaded: &Loaded, decl: &TopologyDecl, topology: &Topology, params: &mut Params<'_>) {
    let TopologySource::Shape(written, _) = &decl.source else { return };
    let living = topology.device_count();
    let [Expr { kind: ExprKind::Name(name), span }] = &written.parts[..] else { return };
    if !sizes_an_axis(written) || living == topology.whole().device_count() {
        return;
    }
    if let (Some(p), Ok(living)) = (loaded.param(span.file, name), i64::try_from(living)) {
        params.rebind(p, living);
    }
}

/// Whether the numbers of a shape are sizes of axes. Those of `hypercube(k)`, `tree(a, d)`, a
/// hierarchy or a list are not.
fn sizes_an_axis(written: &ast::Shape) -> bool {
    let name = written.name.node.as_str();
    !matches!(name, "hypercube" | "tree" | "hierarchy" | "graph" | "package")
}

fn shape(written: &ast::Shape, params: &Params<'_>) -> Result<Shape, Diagnostics> {
    call(&written.name, &written.parts, params)
}

fn call(name: &Spanned<String>, parts: &[Expr], params: &Params<'_>) -> Result<Shape, Diagnostics> {
    // An unknown generator is reported before errors in its arguments.
    if !SHAPE_NAMES.contains(&name.node.as_str()) {
        return Ok(Shape::from_call(name, &[])?);
    }
    let mut list = vec![];
    for p in parts {
        let part = match &p.kind {
            ExprKind::Call(inner, parts) if SHAPE_NAMES.contains(&inner.node.as_str()) => {
                ShapeArgument::Shape(call(inner, parts, params)?)
            }
            _ => ShapeArgument::Size(params.int(p)?),
        };
        list.push(Spanned::new(part, p.span));
    }
    Ok(Shape::from_call(name, &list)?)
}

fn settings(list: &[ast::Setting]) -> Result<Settings, Diagnostics> {
    let mut settings = Settings::default();
    let mut found = Diagnostics::new();
    for s in list {
        let value = |v: &ast::SettingValue| match v {
            ast::SettingValue::Number(x) => SettingValue::Number(*x),
            ast::SettingValue::Name(n) => SettingValue::Name(n.clone()),
            ast::SettingValue::Quantity(q) => SettingValue::Quantity(Quantity {
                amount: q.amount,
                dimension: match q.dimension {
                    ast::Dimension::Bytes => Dimension::Bytes,
                    ast::Dimension::BytesPerSecond => Dimension::BytesPerSecond,
                    ast::Dimension::Nanoseconds => Dimension::Nanoseconds,
                    ast::Dimension::FlopPerSecond => Dimension::FlopPerSecond,
                },
            }),
        };
        let values: Vec<Spanned<SettingValue>> =
            s.values.iter().map(|v| Spanned::new(value(&v.node), v.span)).collect();
        if let Err(d) = settings.set(&s.name, &values) {
            found.push(d);
        }
    }
    if found.has_errors() { Err(found) } else { Ok(settings) }
}

/// Returns the mesh of `sys[sip, cube, pe]` on the machine axes sip_y, sip_x, cube_y, cube_x and
/// pe. A name joins the axes that are its rows and columns.
fn by_name(decl: &MeshDecl, axes: &[(&str, u32)]) -> Option<Mesh> {
    let mut rest = axes;
    let mut out = vec![];
    for axis in &decl.axes {
        let name = axis.name.node.as_str();
        let mine =
            |m: &(&str, u32)| m.0 == name || m.0.strip_prefix(name).is_some_and(|r| r == "_y" || r == "_x");
        let count = rest.iter().take_while(|m| mine(m)).count();
        let (own, others) = rest.split_at(count);
        if own.is_empty() {
            return None;
        }
        rest = others;
        let size = own.iter().map(|m| u64::from(m.1)).product();
        let parts = match own {
            [_] => vec![],
            some => some.iter().map(|(n, k)| (Name::from(*n), u64::from(*k))).collect(),
        };
        out.push(Axis { name: Name::from(name), size, parts });
    }
    rest.is_empty().then_some(Mesh { axes: out })
}

impl Machine<'_> {
    /// Returns the declared mesh, or all devices on one axis if there is none.
    ///
    /// # Errors
    /// Returns E004, E223, or the errors of expressions of sizes.
    pub fn mesh(&self, params: &Params<'_>) -> Result<Mesh, Diagnostics> {
        let Some(decl) = self.mesh else { return Ok(self.all(DEFAULT_AXIS)) };
        for (i, a) in decl.axes.iter().enumerate() {
            if let Some(first) = decl.axes[..i].iter().find(|o| o.name.node == a.name.node) {
                return Err(Diagnostic::error("E004", format!("axis `{}` is declared twice", a.name.node))
                    .primary(a.name.span, "again here")
                    .secondary(first.name.span, "first here")
                    .into());
            }
        }
        if decl.axes.iter().all(|a| a.size.is_none()) {
            return Ok(self.whole(decl)?);
        }
        self.cut(decl, params)
    }

    /// Returns a mesh with all devices on one axis, which is the declared one if the mesh has only
    /// one.
    ///
    /// # Errors
    /// Fails as [`Machine::mesh`] does.
    pub fn joined(&self, params: &Params<'_>) -> Result<Mesh, Diagnostics> {
        let mesh = self.mesh(params)?;
        Ok(if mesh.axes.len() == 1 { mesh } else { self.all(DEFAULT_AXIS) })
    }

    fn devices(&self) -> u64 {
        self.topology.device_count() as u64
    }

    /// Returns a mesh of one axis that joins all axes of the machine. The axis records them if
    /// there are several.
    fn all(&self, name: &str) -> Mesh {
        let parts: Vec<(Name, u64)> =
            self.topology.axes().map(|(n, k)| (Name::from(n), u64::from(k))).collect();
        let parts = if parts.len() > 1 { parts } else { vec![] };
        Mesh { axes: vec![Axis { name: name.into(), size: self.devices(), parts }] }
    }

    /// Returns the mesh of `sys[x, y]`, which names the machine axes, or of `sys[tp]`, which joins
    /// all of them.
    fn whole(&self, decl: &MeshDecl) -> Result<Mesh, Diagnostic> {
        let axes: Vec<(&str, u32)> = self.topology.axes().collect();
        let is_axis = |a: &MeshAxis| axes.iter().any(|m| *m.0 == a.name.node);
        if let [one] = &decl.axes[..]
            && (axes.len() == 1 || !is_axis(one))
        {
            return Ok(self.all(&one.name.node));
        }
        if let Some(mesh) = by_name(decl, &axes) {
            return Ok(mesh);
        }
        let same =
            decl.axes.len() == axes.len() && decl.axes.iter().zip(&axes).all(|(a, m)| a.name.node == *m.0);
        if same {
            let own = |(n, k): (&str, u32)| Axis { name: n.into(), size: u64::from(k), parts: vec![] };
            return Ok(Mesh { axes: axes.into_iter().map(own).collect() });
        }
        let machine: Vec<&str> = axes.iter().map(|a| a.0).collect();
        let asked: Vec<&str> = decl.axes.iter().map(|a| a.name.node.as_str()).collect();
        let title = format!("the axes of {} do not match {}", self.topology.shape(), asked.join(", "));
        Err(self.does_not_fit(decl, title).help(format!(
            "write {0}[{1}] to use the machine's own axes, {0}[a] to join them into one, or give sizes: {0}[a: 2, b: ..]",
            decl.topology.node,
            machine.join(", ")
        )))
    }

    /// Returns the mesh of `sys[dp: 2, tp: 4]`, which cuts the linear order of devices. One axis
    /// may omit its size and gets the rest.
    fn cut(&self, decl: &MeshDecl, params: &Params<'_>) -> Result<Mesh, Diagnostics> {
        let mut sizes: Vec<Option<u64>> = vec![];
        for a in &decl.axes {
            let size = match &a.size {
                None => None,
                Some(e) => match params.int(e)? {
                    n if n >= 1 => Some(n as u64),
                    n => {
                        return Err(Diagnostic::error(
                            "E223",
                            format!("axis `{}` has size {n}", a.name.node),
                        )
                        .primary(e.span, "the size of an axis must be at least 1")
                        .into());
                    }
                },
            };
            sizes.push(size);
        }
        let open = sizes.iter().filter(|s| s.is_none()).count();
        if open > 1 {
            let title = format!("{open} axes of the mesh have no size, and kbc can derive only one");
            return Err(self.does_not_fit(decl, title).help("give a size to all axes but one").into());
        }
        let devices = self.devices();
        let asked = sizes.iter().flatten().try_fold(1u64, |n, s| n.checked_mul(*s));
        let rest = asked.filter(|n| if open == 1 { devices.is_multiple_of(*n) } else { devices == *n });
        let Some(asked) = asked.filter(|_| rest.is_some()) else {
            let list: Vec<String> = decl
                .axes
                .iter()
                .zip(&sizes)
                .map(|(a, s)| s.map_or(a.name.node.clone(), |s| format!("{}: {s}", a.name.node)))
                .collect();
            let wants = match (asked, open) {
                (Some(n), 0) => format!("needs {n} devices"),
                (Some(n), _) => format!("needs a multiple of {n} devices"),
                (None, _) => "needs more than 2^64 devices".into(),
            };
            let title = format!(
                "the mesh `{}` ({}) {wants}, and {} has {devices}",
                decl.name.node,
                list.join(", "),
                self.topology.shape()
            );
            return Err(self
                .does_not_fit(decl, title)
                .help("the product of the mesh sizes must equal the number of devices of the machine")
                .into());
        };
        let sizes: Vec<u64> = sizes.into_iter().map(|s| s.unwrap_or(devices / asked)).collect();
        let mut axes: Vec<Axis> = vec![];
        for (i, (a, size)) in decl.axes.iter().zip(&sizes).enumerate() {
            let stride = sizes[i + 1..].iter().product();
            let parts = self.parts(stride, *size);
            axes.push(Axis { name: Name::from(&a.name.node), size: *size, parts });
        }
        Ok(Mesh { axes })
    }

    /// Returns the machine axes that a mesh axis with this stride and size in the linear order
    /// joins, if it joins more than one and only whole ones. A machine axis of size 1 has no
    /// influence on the order and is left out.
    fn parts(&self, stride: u64, size: u64) -> Vec<(Name, u64)> {
        let mut parts: Vec<(Name, u64)> = vec![];
        let mut below = 1;
        let axes: Vec<(&str, u32)> = self.topology.axes().collect();
        for (name, k) in axes.into_iter().rev() {
            let k = u64::from(k);
            if k > 1 && below >= stride && below * k <= stride * size {
                parts.insert(0, (Name::from(name), k));
            }
            below *= k;
        }
        let exact = parts.iter().map(|p| p.1).product::<u64>() == size;
        if exact && parts.len() > 1 { parts } else { vec![] }
    }

    fn does_not_fit(&self, decl: &MeshDecl, title: String) -> Diagnostic {
        let d = Diagnostic::error("E223", title)
            .primary(decl.span, "this mesh")
            .secondary(self.at, format!("the machine: {}", self.topology.shape()));
        let (whole, living) = (self.topology.whole().device_count(), self.topology.device_count());
        if living == whole {
            return d;
        }
        let failed: Vec<String> =
            self.topology.failed_nodes().map(|n| self.topology.whole().name(n)).collect();
        d.note(format!(
            "the {living} devices that are left form one axis, in their order (failed: {})",
            failed.join(", ")
        ))
    }
}
