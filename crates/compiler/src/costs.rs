//! Costs of algorithms: the rounds, messages and bytes of a call, with the algorithm's
//! documentation.

use crate::algorithm_request::AlgorithmRequest;
use crate::arguments::defines;
use crate::catalogue::place;
use crate::check::algorithms::at;
use crate::check::grid::{Setting, requested};
use crate::failure::{Failure, Outcome};
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_rounds::eval::Value;
use kbc_rounds::{AlgId, Call, Library, Limits, cost};
use serde::Serialize;

/// Returns the algorithms that a name stands for. It may have a namespace of any file, its
/// collective, or both before it. A name alone stands for all algorithms that have it.
pub fn named(library: &Library, name: &str) -> Vec<AlgId> {
    if name.contains('.') {
        return library.algorithms_named(Span::NONE.file, name);
    }
    library.algorithms().filter(|id| library.algorithm_name(*id).node == name).collect()
}

/// Returns the pages of the algorithms with the requested arguments. `define` are sizes and
/// parameters, each as `NAME=VALUE`.
///
/// # Errors
/// E413: a name in `define` that none of them has; E005 and E006: an argument that none of them
/// accepts; E416: options, and a parameter that is given twice; of costs.
pub fn pages(
    workspace: &Workspace,
    library: &Library,
    asked: &AlgorithmRequest,
    define: &[String],
) -> Outcome<Vec<Page>> {
    let name = asked.name.node.as_str();
    if let Some((option, _)) = asked.options.first() {
        let title = format!("the option `{}` does not apply to the list of an algorithm", option.node);
        let d = Diagnostic::error("E416", title).primary(option.span, "an option of a use");
        return Err(Failure::Usage(
            d.help("remove `with (..)`: options do not change what is listed").into(),
        ));
    }
    let mut given: Vec<(String, i64)> = vec![];
    for (n, value) in defines(define)? {
        let Ok(value) = value.parse::<i64>() else {
            return Err(Diagnostic::error("E413", format!("-D {n}={value} is not an integer")).into());
        };
        given.push((n, value));
    }
    let ids = named(library, name);
    if let Some((n, _)) = given.iter().find(|(n, _)| asked.args.iter().any(|a| a.0.node == *n)) {
        let d = Diagnostic::error("E416", format!("-D {n}= and the argument `{n}` both define it"));
        return Err(Failure::Usage(d.help("remove one of them").into()));
    }
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
    // Algorithms of one name may have different parameters.
    let (mut out, mut refused) = (vec![], None);
    for id in ids {
        let settings = match asked.args.is_empty() {
            true => Ok(vec![Setting::default()]),
            false => requested(library, id, asked),
        };
        match settings {
            Ok(settings) => out.push(page(workspace, library, id, (&given, &settings))?),
            Err(d) => refused = refused.or(Some(d)),
        }
    }
    match refused {
        Some(d) if out.is_empty() => Err(d.into()),
        _ => Ok(out),
    }
}

/// The documentation and the costs of one algorithm.
#[derive(Serialize)]
pub struct Page {
    collective: String,
    algorithm: String,
    head: String,
    documentation: String,
    file: String,
    namespace: Option<String>,
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
        let mut out = self
            .documentation
            .lines()
            .fold(format!("{}{}\n", self.head, place(&self.file, self.namespace.as_ref())), |out, l| {
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
    (given, settings): (&[(String, i64)], &[Setting]),
) -> Result<Page, Diagnostics> {
    let decl = library.algorithm(id);
    let value = |n: &str| given.iter().find(|g| g.0 == n).map(|g| g.1);
    let defined: Vec<(String, Value)> =
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
    let calls = shapes.into_iter().flat_map(|s| settings.iter().map(move |setting| (s.clone(), setting)));
    for (sizes, setting) in calls {
        let args: Vec<(String, Value)> = setting.args.iter().chain(&defined).cloned().collect();
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
        namespace: library.namespace_of(decl.span.file),
        costs,
    })
}
