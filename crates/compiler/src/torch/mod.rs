//! PyTorch programs, one a rank, as files or a folder of them (docs/reference/torch.md): checked
//! here, made `.kb` in [`mod@make`].

pub(crate) mod arrays;
pub mod files;
pub mod make;
pub mod verdict;

use crate::failure::{Failure, Outcome};
use crate::report::{Report, SCHEMA, TorchCollective, TorchCount, TorchGroup, TorchPlacements, TorchReport};
use crate::workspace::Workspace;
use files::{Checked, TorchArguments, TorchOptions, checked, sets, with_others};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_import::torch::groups::World;
use kbc_import::torch::matching::MatchedCollective;
use kbc_import::torch::model::Role;
use kbc_import::torch::summary;
use make::{WrittenProgram, make};
use std::path::Path;

/// Checks programs, and finds out their placements. `define` are sizes, each as `NAME=VALUE`. A
/// report that is not ok has something that could not be shown.
///
/// # Errors
/// What is wrong with them.
pub fn check(
    workspace: &mut Workspace,
    paths: &[String],
    asked: &TorchArguments,
    define: &[String],
) -> Outcome<Report> {
    let said = TorchOptions::new(asked, define)?;
    let first = paths.first().cloned().unwrap_or_default();
    let lone = paths.len() == 1 && !workspace.is_folder(Path::new(&first));
    let mut report = Report { schema: SCHEMA, command: "check", file: first, ok: true, ..Report::default() };
    let mut found = Diagnostics::new();
    for set in sets(workspace, paths)? {
        match checked(workspace, &set, &said, lone) {
            Ok(c) => {
                let mut it = about(&set[0].tag, &c.world, &c.met, c.weights);
                match verdict::placements(workspace, &c, asked) {
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
    Ok(report)
}

/// What is imported, and how.
pub struct Import<'a> {
    /// A folder of programs, or the programs of all ranks.
    pub paths: &'a [String],
    /// Tag of the programs, such as `fwd` in rank0.fwd.model.json, if the folder has several.
    pub tag: Option<&'a str>,
    /// Process groups and files of weights.
    pub asked: &'a TorchArguments,
    /// Sizes, each as `NAME=VALUE`.
    pub define: &'a [String],
    /// Name of the program, and of its data files.
    pub name: &'a str,
    /// The folder that the text will be in: it names data of the programs relative to that.
    pub beside: &'a Path,
    /// Whether to make one global program with placements.
    pub lift: bool,
}

/// Makes a `.kb` text of programs, with its data files.
///
/// # Errors
/// What is wrong with the programs, or cannot be expressed.
pub fn import(workspace: &mut Workspace, what: &Import<'_>) -> Outcome<WrittenProgram> {
    let mut worlds = sets(workspace, what.paths)?;
    if let Some(tag) = what.tag {
        worlds.retain(|set| set[0].tag == tag);
    }
    let set = match &worlds[..] {
        [one] => one,
        [] => {
            let tag = what.tag.unwrap_or("");
            return Err(
                Diagnostic::error("E416", format!("there are no programs with the tag `{tag}`")).into()
            );
        }
        more => {
            let tags: Vec<&str> = more.iter().map(|s| s[0].tag.as_str()).collect();
            return Err(Diagnostic::error(
                "E416",
                format!("{} has programs with several tags", what.paths[0]),
            )
            .help(format!("choose one of them with --tag {}", tags.join(", --tag ")))
            .into());
        }
    };
    let it = checked(workspace, set, &TorchOptions::new(what.asked, what.define)?, false)?;
    verdict::placements(workspace, &it, what.asked)?;
    make(workspace, &it, what.name, what.beside, what.lift)
}

/// Lets the `.kb` text of programs and its data stand for files beside the programs, and returns
/// the name of the text. Reports about this text tell what was found out about the programs.
///
/// # Errors
/// Those of [`import`].
pub fn stand_in(
    workspace: &mut Workspace,
    given: &str,
    asked: &TorchArguments,
    define: &[String],
) -> Outcome<String> {
    let path = Path::new(given);
    let worlds = with_others(workspace, given)?;
    let [set] = &worlds[..] else {
        let tags: Vec<String> = worlds.iter().map(|s| s[0].path.display().to_string()).collect();
        return Err(Diagnostic::error("E416", format!("{given} has programs with several tags"))
            .help(format!("choose one of them: {}", tags.join(", ")))
            .into());
    };
    let it: Checked = checked(workspace, set, &TorchOptions::new(asked, define)?, false)?;
    let name = path.file_name().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
    let folder = workspace.is_folder(path);
    let name = if folder { &name[..] } else { name.split('.').next().unwrap_or(&name) };
    let dir = if folder { path } else { path.parent().unwrap_or(Path::new("")) };
    let placements = verdict::placements(workspace, &it, asked)?;
    let made = make(workspace, &it, name, dir, false)?;
    workspace.torch = vec![TorchReport { placements, ..about(&set[0].tag, &it.world, &it.met, it.weights) }];
    let file = dir.join(format!("{name}.kb")).to_string_lossy().into_owned();
    workspace.give(&file, &made.text);
    for (name, bytes) in made.files {
        workspace.give_bytes(&dir.join(name), bytes);
    }
    Ok(file)
}

fn about(tag: &str, world: &World, met: &[MatchedCollective], weights: Option<&'static str>) -> TorchReport {
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
