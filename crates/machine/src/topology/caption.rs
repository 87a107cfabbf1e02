//! Captions: the text of a machine for headers and figures, without long lists.

use super::stated::ROUTE;

/// Number of links, and of routes, up to which headers and captions list them.
const LISTED: usize = 4;

/// Returns the text of a machine for headers and captions: if more than a few links or routes are
/// listed, only their number is kept.
pub fn brief(machine: &str) -> String {
    let Some((shape, inner)) = machine.split_once(" { ") else { return machine.to_owned() };
    let mut parts: Vec<&str> = inner.strip_suffix(" }").unwrap_or(inner).split("; ").collect();
    let links = if shape.starts_with("graph(") { "links" } else { "links with individual rates" };
    let mut numbers = vec![];
    for (word, what) in [("link ".to_owned(), links), (format!("{ROUTE}: "), "routes")] {
        let listed = parts.iter().filter(|p| p.starts_with(&word)).count();
        if listed > LISTED {
            parts.retain(|p| !p.starts_with(&word));
            numbers.push(format!("{listed} {what}"));
        }
    }
    let parts: Vec<&str> = parts.into_iter().chain(numbers.iter().map(String::as_str)).collect();
    format!("{shape} {{ {} }}", parts.join("; "))
}
