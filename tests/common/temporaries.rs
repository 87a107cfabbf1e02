//! Runs of kbc with a folder of their own for temporary files, in which nothing may be left.

use crate::common::{Ran, Scratch, kbc_with, split};
use std::path::PathBuf;

/// A scratch folder with a folder for temporary files.
pub struct Temporaries {
    /// The folder in which commands run.
    pub dir: Scratch,
    temporary: PathBuf,
    /// What the names of files of kbc begin with. Others may be left: an MPI has some for sessions.
    own: &'static str,
}

impl Temporaries {
    /// Creates the folders. No file whose name begins with `own` may be left by a run.
    pub fn new(own: &'static str) -> Temporaries {
        let dir = Scratch::new();
        let temporary = dir.path().join("temporary");
        std::fs::create_dir(&temporary).expect("can be written");
        Temporaries { dir, temporary, own }
    }

    /// Runs a line with these variables, and checks that no temporary file is left.
    pub fn run(&self, line: &str, vars: &[(&str, &str)]) -> Ran {
        let words = split(line);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let temporary = self.temporary.to_string_lossy();
        let ran = kbc_with(self.dir.path(), &words, "", &[&[("TMPDIR", &*temporary)], vars].concat());
        assert_eq!(self.left(), Vec::<PathBuf>::new(), "{line}");
        ran
    }

    /// Returns the temporary files.
    pub fn left(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(&self.temporary).expect("a folder");
        let all = all.map(|e| e.expect("an entry").path());
        all.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(self.own))).collect()
    }

    /// Returns the folder for temporary files.
    pub fn temporary(&self) -> &std::path::Path {
        &self.temporary
    }

    /// Writes a script of `sh`. Returns its path.
    #[cfg(unix)]
    pub fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        self.dir.write(name, format!("#!/bin/sh\n{text}\n").as_bytes());
        let path = self.dir.path().join(name);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it was written");
        path.to_string_lossy().into_owned()
    }
}
