//! Makes a digest of the code of kbc on which a compilation depends: `KBC_CODE`.
//!
//! It covers the sources and the manifest of this crate and of every crate of kbc that it depends
//! on, the library of algorithms, and the versions of packages. What one build has found is used by
//! another one only if both have the same digest.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let root = Path::new("../..");
    let mut files = vec![root.join("Cargo.lock")];
    let mut folders = vec![root.join("specs/lib")];
    let mut crates = BTreeSet::from(["kbc-compiler".to_owned()]);
    let mut todo: Vec<String> = crates.iter().cloned().collect();
    while let Some(name) = todo.pop() {
        let folder = root.join("crates").join(name.strip_prefix("kbc-").unwrap_or(&name));
        let manifest = folder.join("Cargo.toml");
        todo.extend(dependencies(&manifest)?.into_iter().filter(|d| crates.insert(d.clone())));
        files.push(manifest);
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
    let mut digests = [0u64, 1].map(|seed| {
        let mut digest = DefaultHasher::new();
        seed.hash(&mut digest);
        std::env::var("TARGET").ok().hash(&mut digest);
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

/// The crates of kbc among the dependencies of a manifest.
fn dependencies(manifest: &Path) -> Outcome<Vec<String>> {
    let text = fs::read_to_string(manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
    let lines = text.lines().skip_while(|l| *l != "[dependencies]").skip(1);
    let lines = lines.take_while(|l| !l.starts_with('['));
    Ok(lines
        .filter(|l| l.starts_with("kbc-"))
        .filter_map(|l| Some(l.split_once('.')?.0.to_owned()))
        .collect())
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
