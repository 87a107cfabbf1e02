//! Packages: everything that is written for the runtime (kernel, orchestration, harness, golden
//! values, test, description).
//!
//! The module owns the files that are made from the description of a package
//! ([`kbc_tiles::package`]). The texts of the kernel are given ([`Package::sources`]). All other
//! files are made from the one list of arguments ([`kbc_tiles::args`]), the layout of the window as
//! the kernel has it and the graph of the program, so that nothing is stated twice. The driver
//! writes the folder.

mod orchestrate;
pub mod platform;
mod text;

pub use orchestrate::orchestration;
pub use platform::{platforms, runtimes, support};
pub use text::test_command;

use crate::elementwise::bound;
use crate::profile::{DIALECT, Profile};
use kbc_diag::Diagnostics;
use kbc_tiles::package::{Layout, OWN, Package, golden, problems};

/// Returns the files of the package: path in the folder, and content.
///
/// # Errors
/// Returns E457 for everything that cannot be in a package: a name that is not an identifier, an
/// area without an offset, a partial result, inconsistent claims. All of them are returned
/// together.
pub fn files(package: &Package<'_>, profile: &Profile) -> Result<Vec<(String, Vec<u8>)>, Diagnostics> {
    let layout = Layout::of(package.kernel);
    let golden = golden::print(package, &bound);
    let mut found = Diagnostics::new();
    problems(package, profile.limits.ranks).into_iter().for_each(|d| found.push(d));
    let (layout, golden) = match (layout, golden) {
        (Ok(l), Ok(g)) if !found.has_errors() => (l, g),
        (l, g) => {
            l.err().into_iter().chain(g.err()).for_each(|d| found.push(d));
            return Err(found);
        }
    };
    let name = &package.kernel.name;
    let mut out = vec![
        ("README.md".to_owned(), text::readme(package, profile, &layout)),
        ("conftest.py".into(), text::conftest(profile)),
        ("entry.py".into(), text::entry(package, profile)),
        ("golden.py".into(), golden),
        ("harness.py".into(), text::harness()),
        (format!("kernels/orchestration/{name}_orch.cpp"), orchestration(package.kernel, package.sources)),
        ("layout.py".into(), text::layout(package, profile, &layout)?),
        ("main.py".into(), text::main(package, profile)),
        ("manifest.json".into(), text::manifest(package, profile, &layout)),
        (format!("test_{name}.py"), text::test(package, profile)),
    ];
    for s in package.sources {
        out.push((format!("kernels/{}/{}.cpp", DIALECT.core(s.core), s.name), s.text.clone()));
    }
    let bytes = |(path, text): (String, String)| {
        let text = licensed(&path, text).into_bytes();
        (path, text)
    };
    let mut out: Vec<(String, Vec<u8>)> = out.into_iter().map(bytes).collect();
    out.extend(package.own.iter().map(|bytes| (OWN.to_owned(), bytes.clone())));
    out.sort();
    Ok(out)
}

/// The licence of what kbc writes, which is that of kbc, as a comment.
const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0";

/// Returns a text with its licence as the first line, behind the one that names an interpreter.
fn licensed(path: &str, text: String) -> String {
    let comment = match path.rsplit_once('.') {
        Some((_, "py")) => "#",
        Some((_, "cpp")) => "//",
        _ => return text,
    };
    match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => format!("{first}\n{comment} {LICENCE}\n{rest}"),
        _ => format!("{comment} {LICENCE}\n{text}"),
    }
}
