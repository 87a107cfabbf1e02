//! Helpers shared by all tests of the driver: run the binary in folders of its own.
//!
//! A [`Scratch`] is a fresh folder with a copy of the repository's `specs`. Commands are lines
//! split into words as in a shell; the only programs are kbc and a few that look at files. Nothing
//! here knows the expected results.

use crate::cases::asked;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the sizes that a program of `specs` leaves free, as its first command gives them: `-D
/// S=25`, or nothing.
pub fn free_sizes<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
    let line = text.lines().find_map(|l| l.strip_prefix(&format!("//     kbc compile {name} ")));
    line.unwrap_or("").split_whitespace().skip_while(|w| *w != "-D").take(2).collect()
}

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Folders of `docs` whose pages are written by hand and have no test of their own.
const FOLDERS: [&str; 5] = ["", "tutorials", "how-to", "reference", "explanation"];

/// Returns the hand-written pages of the documentation: those of docs and of its folders by
/// purpose, and README.md.
pub fn pages() -> Vec<PathBuf> {
    let in_folder = |folder: &str| -> Vec<PathBuf> {
        let entries =
            std::fs::read_dir(root().join("docs").join(folder)).expect("a folder of the repository");
        entries
            .map(|e| e.expect("an entry").path())
            .filter(|p| p.extension().is_some_and(|e| e == "md"))
            .collect()
    };
    let mut out: Vec<PathBuf> = FOLDERS.into_iter().flat_map(in_folder).collect();
    out.push(root().join("README.md"));
    out.sort();
    out
}

/// The result of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code; -1 if it ended by a signal.
    pub code: i32,
}

/// How C is optimised: not at all, which compiles fastest, or where all cases run, at the lowest
/// level that has all warnings.
pub fn c_level() -> &'static str {
    if asked() { "-O1" } else { "-O0" }
}

/// Compiles emitted C with the flags of its Makefile and `more`, which has the level of
/// optimisation. Warnings are errors.
pub fn cc(compiler: &OsStr, file: &Path, out: &Path, more: &[&str]) {
    let ran = Command::new(compiler)
        .args(["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"])
        .args(more)
        .arg("-o")
        .args([out, file])
        .args(["-lm", "-pthread", "-lrt"])
        .output()
        .expect("the compiler starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Runs kbc in a folder.
pub fn kbc(dir: &Path, args: &[&str], stdin: &str) -> Ran {
    kbc_with(dir, args, stdin, &[])
}

/// Runs kbc in a folder with additional environment variables.
pub fn kbc_with(dir: &Path, args: &[&str], stdin: &str, vars: &[(&str, &str)]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(args)
        .current_dir(dir)
        .env_remove("NO_COLOR")
        .env("COLUMNS", "120")
        .env("CFLAGS", c_level())
        // Not the user's cache.
        .env("KBC_CACHE", env!("CARGO_TARGET_TMPDIR"))
        .envs(vars.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built with the tests");
    // A command that does not read its input may have exited already.
    let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
    let out = child.wait_with_output().expect("it ends");
    Ran {
        stdout: String::from_utf8(out.stdout).expect("kbc writes UTF-8"),
        stderr: String::from_utf8(out.stderr).expect("kbc writes UTF-8"),
        code: out.status.code().unwrap_or(-1),
    }
}

/// A folder that is removed when the test ends.
pub struct Scratch(PathBuf);

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    /// Creates a folder with the repository's `specs` in it.
    pub fn new() -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the build folder can be written");
        copy(&root().join("specs"), &dir.join("specs"));
        Scratch(dir)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a name in a folder")).expect("can be written");
        std::fs::write(path, bytes).expect("can be written");
    }

    /// Returns every file in it except `specs`, with its content.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut out = BTreeMap::new();
        collect(&self.0, "", &mut out);
        out.retain(|name, _| !name.starts_with("specs/"));
        out
    }

    /// Runs a line: `kbc ..`, or `cat`, `ls`, `append FILE WORDS`, `remove FILE`; several joined by
    /// `|`; `< FILE` feeds the first.
    pub fn line(&self, line: &str) -> Ran {
        let words = split(line);
        let mut ran = Ran::default();
        let mut all = String::new();
        let (mut stdin, mut words) = match words.iter().position(|w| w == "<") {
            Some(at) => {
                let text = std::fs::read_to_string(self.0.join(&words[at + 1])).expect("the file after <");
                (text, [&words[..at], &words[at + 2..]].concat())
            }
            None => (String::new(), words),
        };
        while !words.is_empty() {
            let end = words.iter().position(|w| w == "|").unwrap_or(words.len());
            let one: Vec<&str> = words[..end].iter().map(String::as_str).collect();
            ran = self.command(&one, &stdin);
            all += &ran.stderr;
            stdin.clone_from(&ran.stdout);
            words.drain(..(end + 1).min(words.len()));
        }
        Ran { stderr: all, ..ran }
    }

    fn command(&self, words: &[&str], stdin: &str) -> Ran {
        let text = |stdout: String| Ran { stdout, ..Ran::default() };
        match words {
            ["kbc", rest @ ..] => kbc(&self.0, rest, stdin),
            ["cat", file] => text(std::fs::read_to_string(self.0.join(file)).expect("a file for cat")),
            ["ls", dir] => {
                let mut names: Vec<String> = std::fs::read_dir(self.0.join(dir))
                    .expect("a folder for ls")
                    .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
                    .collect();
                names.sort();
                text(names.iter().map(|n| format!("{n}\n")).collect())
            }
            ["append", file, rest @ ..] => {
                let old = std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
                self.write(file, format!("{old}{}\n", rest.join(" ")).as_bytes());
                text(String::new())
            }
            ["remove", file] => {
                std::fs::remove_file(self.0.join(file)).expect("a file for remove");
                text(String::new())
            }
            _ => panic!("{words:?} is no command of a transcript"),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Copies a folder; large files are linked if the file system supports it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("can be written");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).expect("can be copied");
        }
    }
}

fn collect(dir: &Path, prefix: &str, out: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            out.insert(format!("{name}/"), vec![]);
            collect(&entry.path(), &format!("{name}/"), out);
        } else {
            out.insert(name, std::fs::read(entry.path()).expect("a file"));
        }
    }
}

/// Returns a `.npy` file of an array in row-major order: its type, its sizes and its bytes.
pub fn npy(descr: &str, sizes: &[usize], data: &[u8]) -> Vec<u8> {
    let tuple: String = sizes.iter().map(|s| format!("{s}, ")).collect();
    let mut dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({tuple}), }}");
    dict += &" ".repeat(63 - (10 + dict.len()) % 64);
    dict.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(u16::try_from(dict.len()).expect("a short header").to_le_bytes());
    out.extend(dict.bytes());
    out.extend(data);
    out
}

/// Splits a line into words; quotes (single and double) protect spaces.
pub fn split(line: &str) -> Vec<String> {
    let (mut out, mut word, mut quote, mut open) = (vec![], String::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, open) = (Some(c), true),
            None if c.is_whitespace() => {
                if open || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                open = false;
            }
            None => word.push(c),
        }
    }
    assert!(quote.is_none(), "a quote without an end: {line}");
    if open || !word.is_empty() {
        out.push(word);
    }
    out
}

/// A message in the short form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Short {
    /// The file and line to which it points.
    pub place: Option<(String, usize)>,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// The code, such as `E021`.
    pub code: String,
    /// The title.
    pub title: String,
}

/// Parses messages of `--diagnostics short`.
pub fn short(stderr: &str) -> Vec<Short> {
    stderr
        .lines()
        .map(|line| {
            let at = ["error[", "warning[", "note["].iter().filter_map(|s| line.find(s)).min();
            let at = at.unwrap_or_else(|| panic!("not a message: {line}"));
            let (place, rest) = line.split_at(at);
            let (severity, rest) = rest.split_once('[').expect("found above");
            let (code, title) = rest.split_once("]: ").unwrap_or_else(|| panic!("not a message: {line}"));
            let place = place.trim_end_matches(": ").rsplitn(3, ':').collect::<Vec<_>>();
            let place = match place[..] {
                [_, line, file] => Some((file.to_owned(), line.parse().expect("a number of a line"))),
                _ => None,
            };
            Short { place, severity: severity.into(), code: code.into(), title: title.into() }
        })
        .collect()
}
