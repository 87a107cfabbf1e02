//! Makes a digest of the code of kbc on which a compilation depends: `KBC_CODE`.
//!
//! It covers the sources, the manifest and the build script of this crate and of every crate of kbc
//! that it depends on, the library of algorithms, the manifest of the workspace, the versions of
//! packages, and that of the Rust compiler. What one build has found is used by another one only if
//! both have the same digest.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let root = Path::new("../..");
    let mut files = vec![root.join("Cargo.lock"), root.join("Cargo.toml")];
    let mut folders = vec![root.join("specs/lib")];
    let mut crates = BTreeSet::from(["kbc-compiler".to_owned()]);
    let mut todo: Vec<String> = crates.iter().cloned().collect();
    while let Some(name) = todo.pop() {
        let folder = root.join("crates").join(name.strip_prefix("kbc-").unwrap_or(&name));
        let manifest = folder.join("Cargo.toml");
        todo.extend(dependencies(&manifest)?.into_iter().filter(|d| crates.insert(d.clone())));
        files.push(manifest);
        files.extend(Some(folder.join("build.rs")).filter(|script| script.exists()));
        folders.push(folder.join("src"));
    }
    // A folder that changes runs the script again, and a crate whose source changes is built again
    // together with this one in any case.
    for path in files.iter().chain(&folders) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    for folder in folders {
        below(&folder, &mut files)?;
    }
    files.sort();
    let rustc = std::env::var_os("RUSTC").ok_or("cargo does not name the compiler")?;
    let version = Command::new(rustc).arg("-vV").output()?.stdout;
    let mut digests = [0u64, 1].map(|seed| {
        let mut digest = DefaultHasher::new();
        (seed, std::env::var("TARGET").ok(), &version).hash(&mut digest);
        digest
    });
    for file in files {
        let text = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        for digest in &mut digests {
            file.to_string_lossy().hash(digest);
            text.hash(digest);
        }
    }
    let digits: String = digests.iter().map(|d| format!("{:016x}", d.finish())).collect();
    println!("cargo:rustc-env=KBC_CODE={digits}");
    Ok(())
}

/// The crates of kbc among the dependencies of a manifest. Each is a line `kbc-x.workspace = true`;
/// another form is an error, so that none is forgotten.
fn dependencies(manifest: &Path) -> Outcome<Vec<String>> {
    let text = fs::read_to_string(manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
    let unread = |line: &str| format!("{}: `{line}` is not read for KBC_CODE", manifest.display());
    let (mut out, mut section) = (vec![], "");
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
            if line.contains("dependencies.") || line.starts_with("[target") {
                return Err(unread(line).into());
            }
        } else if section == "[dependencies]" && line.starts_with("kbc-") {
            out.push(line.strip_suffix(".workspace = true").ok_or_else(|| unread(line))?.to_owned());
        }
    }
    Ok(out)
}

/// Adds all files below a folder.
fn below(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
