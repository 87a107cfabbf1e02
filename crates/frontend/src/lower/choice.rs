//! Choice of the machine: the mesh and the topology of a program, if its file declares several.
//!
//! `--mesh NAME` names a mesh, and `--topology NAME` a topology of the file. Of several, none is
//! preferred, because a silent choice would be a guess.

use super::LowerOptions;
use crate::ast::{MeshDecl, TopologyDecl};
use crate::loaded::Loaded;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::Ident;
use kbc_rounds::eval::{Fault, unknown};

/// The mesh and the topology of a program.
#[derive(Clone, Copy, Debug)]
pub struct MachineChoice<'a> {
    /// The mesh, if the file has one.
    pub mesh: Option<&'a MeshDecl>,
    /// The topology, if the file has one.
    pub topology: Option<&'a TopologyDecl>,
    /// Whether `--topology` is the name of a topology of the file and not a shape.
    pub by_name: bool,
}

/// Returns the mesh and the topology of a program of this file.
///
/// # Errors
/// Returns E005 for a name that is not declared, and E224 if several are possible.
pub fn machine_choice<'a>(
    loaded: &'a Loaded,
    root: FileId,
    options: &LowerOptions,
) -> Result<MachineChoice<'a>, Diagnostics> {
    let asked = options.topology.as_ref().map(|t| t.0.trim());
    let chosen = asked.and_then(|name| loaded.topologies(root).find(|t| t.name.node == name));
    let by_name = chosen.is_some();
    let mut meshes = loaded.nearest_meshes(root);
    if let Some(name) = &options.mesh {
        let Some(mesh) = loaded.meshes(root).find(|m| m.name.node == *name) else {
            let valid: Vec<String> = loaded.meshes(root).map(|m| m.name.node.clone()).collect();
            let mut d = *unknown("E005", "mesh", name, Span::NONE, &valid);
            d.labels.clear();
            return Err(d.into());
        };
        meshes = vec![mesh];
    } else if let Some(t) = chosen {
        let over = |m: &&MeshDecl| topology_of(loaded, m).is_ok_and(|o| o.name == t.name);
        meshes = loaded.meshes(root).filter(over).collect();
    }
    // Two declarations of one name are E004.
    meshes.dedup_by(|b, a| a.name.node == b.name.node);
    let mut topologies = loaded.nearest_topologies(root);
    topologies.dedup_by(|b, a| a.name.node == b.name.node);
    match (&meshes[..], chosen) {
        ([], Some(t)) => Ok(MachineChoice { mesh: None, topology: Some(t), by_name }),
        ([], None) => match topologies[..] {
            [] => Ok(MachineChoice { mesh: None, topology: None, by_name }),
            [one] => Ok(MachineChoice { mesh: None, topology: Some(one), by_name }),
            _ => {
                Err(several("topologies", "--topology", topologies.iter().map(|t| &t.name).collect()).into())
            }
        },
        ([mesh], chosen) => {
            let topology = topology_of(loaded, mesh)?;
            if let Some(t) = chosen.filter(|t| t.name != topology.name) {
                let title = format!("the mesh `{}` is not over `{}`", mesh.name.node, t.name.node);
                return Err(Diagnostic::error("E224", title)
                    .primary(mesh.topology.span, "its topology")
                    .help("remove --mesh or --topology")
                    .into());
            }
            Ok(MachineChoice { mesh: Some(mesh), topology: Some(topology), by_name })
        }
        _ => Err(several("meshes", "--mesh", meshes.iter().map(|m| &m.name).collect()).into()),
    }
}

/// Returns the topology that a mesh names.
pub(super) fn topology_of<'a>(loaded: &'a Loaded, mesh: &MeshDecl) -> Result<&'a TopologyDecl, Fault> {
    let file = mesh.topology.span.file;
    loaded.topologies(file).find(|t| t.name.node == mesh.topology.node).ok_or_else(|| {
        let valid: Vec<String> = loaded.topologies(file).map(|t| t.name.node.clone()).collect();
        unknown("E005", "topology", &mesh.topology.node, mesh.topology.span, &valid)
    })
}

/// Returns the error for several declarations of which one is needed.
fn several(what: &str, flag: &str, names: Vec<&Ident>) -> Diagnostic {
    let list: Vec<&str> = names.iter().map(|n| n.node.as_str()).collect();
    let mut d = Diagnostic::error("E224", format!("the file has several {what}"))
        .help(format!("choose one: {flag} {}", list.join(&format!(" or {flag} "))));
    for (i, n) in names.iter().enumerate() {
        d = if i == 0 { d.primary(n.span, "the first") } else { d.secondary(n.span, "another") };
    }
    d
}
