//! Costs of algorithms: the rounds, messages and bytes of a call, with the algorithm's
//! documentation.

use crate::arguments::defines;
use crate::check::algorithms::at;
use crate::failure::Outcome;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_rounds::eval::Value;
use kbc_rounds::{AlgId, Call, Library, Limits, cost};
use serde::Serialize;

/// Returns the pages of the algorithms of a name. `define` are sizes and parameters, each as
/// `NAME=VALUE`.
///
/// # Errors
/// E413: a name in `define` that none of them has; of reading documentation and of costs.
pub fn pages(workspace: &Workspace, library: &Library, name: &str, define: &[String]) -> Outcome<Vec<Page>> {
    let mut given: Vec<(String, i64)> = vec![];
    for (n, value) in defines(define)? {
        let Ok(value) = value.parse::<i64>() else {
            return Err(Diagnostic::error("E413", format!("-D {n}={value} is not an integer")).into());
        };
        given.push((n, value));
    }
    let ids: Vec<AlgId> =
        library.algorithms().filter(|id| library.algorithm(*id).name.node == name).collect();
    let names_of = |id: &AlgId| -> Vec<&str> {
        let d = library.algorithm(*id);
        let sizes = d.axes.iter().map(|a| a.size.node.as_str());
        sizes.chain(d.params.iter().map(|p| p.0.node.as_str())).collect()
    };
    if let Some((n, _)) = given.iter().find(|(n, _)| !ids.iter().any(|id| names_of(id).contains(&n.as_str())))
    {
        let mut valid: Vec<&str> = ids.iter().flat_map(names_of).collect();
        valid.sort_unstable();
        valid.dedup();
        return Err(Diagnostic::error("E413", format!("`{name}` has no size or parameter `{n}`"))
            .note(format!("it has {}", valid.join(", ")))
            .into());
    }
    Ok(ids.iter().map(|id| page(workspace, library, *id, &given)).collect::<Result<_, _>>()?)
}

/// The documentation and the costs of one algorithm.
#[derive(Serialize)]
pub struct Page {
    collective: String,
    algorithm: String,
    head: String,
    documentation: String,
    file: String,
    costs: Vec<CostRow>,
}

/// Returns the costs of one call; bytes in units of the vector.
#[derive(Serialize)]
struct CostRow {
    call: String,
    rounds: u32,
    messages: u64,
    sent: String,
    pair: String,
}

impl Page {
    /// Formats the page for people.
    pub fn text(&self) -> String {
        let mut out =
            self.documentation.lines().fold(format!("{}  [{}]\n", self.head, self.file), |out, l| {
                out + format!("    {l}").trim_end() + "\n"
            });
        let width = self.costs.iter().map(|c| c.call.len()).max().unwrap_or(0);
        for c in &self.costs {
            out += &format!(
                "  {:<width$}  rounds {}, sent {}, pair {}, messages {}\n",
                c.call, c.rounds, c.sent, c.pair, c.messages
            );
        }
        out
    }
}

fn page(
    workspace: &Workspace,
    library: &Library,
    id: AlgId,
    given: &[(String, i64)],
) -> Result<Page, Diagnostics> {
    let decl = library.algorithm(id);
    let value = |n: &str| given.iter().find(|g| g.0 == n).map(|g| g.1);
    let args: Vec<(String, Value)> =
        decl.params.iter().filter_map(|(p, _)| Some((p.node.clone(), Value::Int(value(&p.node)?)))).collect();
    // Returns the given sizes, with the default for the others.
    let usual: &[&[i64]] = match decl.axes.len() {
        1 => &[&[2], &[8], &[9], &[16]],
        2 => &[&[2, 3], &[4, 4]],
        _ => &[&[2, 2, 2], &[3, 3, 3]],
    };
    let mut shapes: Vec<Vec<i64>> = vec![];
    for usual in usual {
        let sizes: Vec<i64> = decl
            .axes
            .iter()
            .enumerate()
            .map(|(i, a)| value(&a.size.node).unwrap_or(usual[i.min(2)]))
            .collect();
        if !shapes.contains(&sizes) {
            shapes.push(sizes);
        }
    }
    let mut costs = vec![];
    for sizes in shapes {
        if let Some(bad) = sizes.iter().find(|s| **s < 1) {
            return Err(Diagnostic::error("E413", format!("{bad} is not a valid number of ranks")).into());
        }
        let root = decl.root.is_some().then(|| vec![0; sizes.len()]);
        let call = Call { alg: id, sizes: sizes.clone(), root, args: args.clone() };
        let legal = kbc_rounds::group::is_legal(library, &call).map_err(|d| Diagnostics::from(*d))?;
        // If no size is requested, shapes for which the algorithm is not defined are omitted.
        if !legal && given.is_empty() {
            continue;
        }
        let rounds = kbc_rounds::expand(library, &call, &Limits::default()).map_err(|d| at(d, &sizes))?;
        let c = cost(&rounds);
        let names = decl.axes.iter().zip(&sizes).map(|(a, s)| format!("{} = {s}", a.size.node));
        let more = args.iter().map(|(n, v)| format!("{n} = {v}"));
        costs.push(CostRow {
            call: names.chain(more).collect::<Vec<_>>().join(", "),
            rounds: c.rounds,
            messages: c.messages,
            sent: c.sent.to_string(),
            pair: c.pair.to_string(),
        });
    }
    // The head includes the clauses.
    let head = Span { end: decl.body.span.start, ..decl.head };
    let head: Vec<String> = workspace.quote(head).split_whitespace().map(str::to_owned).collect();
    Ok(Page {
        collective: decl.coll.node.clone(),
        algorithm: decl.name.node.clone(),
        head: head.join(" "),
        documentation: decl.doc.clone(),
        file: workspace.name_of(decl.span),
        costs,
    })
}
