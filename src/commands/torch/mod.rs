//! PyTorch programs, one per rank, given as files or a folder (docs/torch.md). They are checked
//! here, and [`import`] converts them to `.kb`.

mod arrays;
mod files;
pub mod import;
mod verdict;

pub use files::is_one;

use super::compile::show;
use crate::cli::Check;
use crate::report::{Report, SCHEMA, TorchCollective, TorchCount, TorchGroup, TorchPlacements, TorchReport};
use crate::session::{Failure, Outcome, Session};
use files::{Said, checked, sets};
use kbc_diag::Diagnostics;
use kbc_import::torch::groups::World;
use kbc_import::torch::matching::Met;
use kbc_import::torch::model::Role;
use kbc_import::torch::summary;
use std::path::Path;

/// `kbc check` of programs.
///
/// # Errors
/// What is wrong with them.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    let source = args.source();
    let first = &source.file;
    super::import::no_post(&source)?;
    // sizes of programs have values, and nothing else of them is replaced
    kbc_compiler::load::refuse(&source.of.plain().given()[1..], "PyTorch programs")?;
    let said = Said::new(&args.groups, &source.of.define)?;
    super::tile::no_target(args.target.as_ref(), first)?;
    let paths: Vec<String> = std::iter::once(first).chain(&args.more).cloned().collect();
    let lone = paths.len() == 1 && !Path::new(first).is_dir();
    let mut report =
        Report { schema: SCHEMA, command: "check", file: first.clone(), ok: true, ..Report::default() };
    let mut found = Diagnostics::new();
    for set in sets(&paths)? {
        match checked(session, &set, &said, lone) {
            Ok(c) => {
                let mut it = about(&set[0].tag, &c.world, &c.met, c.weights);
                match verdict::placements(session, &c, &args.groups) {
                    Ok(placements) => it.placements = placements,
                    Err(Failure::Program(d)) => {
                        found.extend(d);
                        continue;
                    }
                    Err(other) => return Err(other),
                }
                if let Some(mesh) = &c.mesh {
                    // one program is that of all ranks
                    it.world = mesh.iter().map(|m| m.1).product();
                    it.ranks = (0..it.world).collect();
                }
                report.torch.push(it);
            }
            Err(Failure::Program(d)) => found.extend(d),
            Err(other) => return Err(other),
        }
    }
    if found.has_errors() {
        return Err(found.into());
    }
    // what is not shown is not ok, and not wrong either
    report.ok = report.torch.iter().all(|t| t.placements.shown || t.placements.reference.is_some());
    show(session, &report, args.report)
}

fn about(tag: &str, world: &World, met: &[Met], weights: Option<&'static str>) -> TorchReport {
    let p = &world.programs[0];
    let operations = summary::operations(p);
    let collectives = summary::collectives(world, met);
    let mut groups: Vec<TorchGroup> = vec![];
    for c in &collectives {
        let g = TorchGroup { name: c.group.clone(), ranks: c.members.clone() };
        if !groups.contains(&g) {
            groups.push(g);
        }
    }
    groups.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    let role = |weight: bool| {
        p.written.inputs.iter().filter(|i| matches!(i.1, Role::Weight(_)) == weight).count() as u64
    };
    TorchReport {
        tag: tag.to_owned(),
        version: p.written.torch.clone(),
        world: world.size,
        ranks: world.programs.iter().map(|p| p.rank).collect(),
        groups_from: if world.said { "file" } else { "assumed" },
        parameters: role(true),
        inputs: role(false),
        weights,
        alike: world.programs.iter().all(|q| summary::operations(q) == operations),
        groups,
        operations: operations
            .into_iter()
            .map(|(operation, count)| TorchCount { operation: operation.to_owned(), count })
            .collect(),
        collectives: collectives
            .into_iter()
            .map(|c| TorchCollective {
                operation: c.operation,
                reduce: c.reduce,
                group: c.group,
                ranks: c.members.len() as u64,
                operand: c.operand,
                bytes: c.bytes,
                count: c.count,
            })
            .collect(),
        placements: TorchPlacements::default(),
    }
}
