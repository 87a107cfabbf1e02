//! Translation unit of several programs: every kernel and every orchestration in a namespace of its
//! own, after the headers of all of them.

use super::{Kernel, StandinSource};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The file that is compiled; it includes the others.
pub const MAIN: &str = "unit.cpp";

/// The file that [`MAIN`] includes first. It has all headers that the programs include and nothing
/// else, so units with the same headers can share a precompiled one.
pub const HEADERS: &str = "headers.hpp";

/// Text of a translation unit.
pub struct Unit {
    /// Content of [`HEADERS`].
    pub headers: String,
    /// The other files with their names. [`MAIN`] is the last.
    pub files: Vec<(String, String)>,
}

/// Returns the number of the line that names the entry function.
fn body_line(kernel: &str) -> usize {
    kernel.lines().position(|l| l.contains("kernel_entry(")).map_or(0, |i| i + 1)
}

/// Returns the text in which every statement of the body that is a call records its line, so that
/// instructions in helper functions are reported where the body calls them.
fn marked(kernel: &str, body: usize) -> String {
    let call = |code: &str| {
        let name = code.split('(').next().unwrap_or("");
        let word = |c: char| c.is_alphanumeric() || "_:<>".contains(c);
        !name.is_empty()
            && name.chars().all(word)
            && name.starts_with(|c: char| c.is_alphabetic())
            && (code.ends_with(',')
                || code.ends_with(");") && code.matches('(').count() == code.matches(')').count())
    };
    let mut out = String::new();
    let mut open = false;
    for (i, line) in kernel.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("").trim();
        let at = line.len() - line.trim_start().len();
        if i >= body && !open && call(code) {
            out += &format!("{}standin::at({}), {}\n", &line[..at], i + 1, &line[at..]);
        } else {
            out += &format!("{line}\n");
        }
        // An unfinished statement continues on the next line.
        if !code.is_empty() {
            open = !code.ends_with(['{', '}', ';', ':']);
        }
    }
    out
}

/// Returns the text without its `#include` lines, which go to `includes`. Lines keep their numbers.
fn without_includes(text: &str, includes: &mut BTreeSet<String>) -> String {
    let line = |l: &str| {
        if !l.starts_with("#include") {
            return format!("{l}\n");
        }
        includes.insert(l.split("//").next().unwrap_or(l).trim_end().to_owned());
        "\n".to_owned()
    };
    text.lines().map(line).collect()
}

/// Lines in front of the kernels and behind them. g++ takes most of its time to optimise kernels,
/// each of which runs a few times; the instructions that they call are in headers, stay optimised,
/// and take the time of the run. The headers say that entries are `always_inline` without `inline`,
/// and g++ forgets that in a precompiled header. Other compilers do not know these pragmas.
const AS_THEY_ARE: [&str; 2] = [
    "#if defined(__GNUC__) && !defined(__clang__)\n#pragma GCC diagnostic ignored \"-Wattributes\"\n#pragma GCC push_options\n#pragma GCC optimize(\"O0\")\n#endif",
    "#if defined(__GNUC__) && !defined(__clang__)\n#pragma GCC pop_options\n#endif",
];

/// Returns the translation unit of programs.
pub fn unit(programs: &[StandinSource<'_>]) -> Unit {
    let mut files = vec![];
    let mut includes = BTreeSet::from(["#include \"standin/program.hpp\"".to_owned()]);
    let (mut parts, mut table, mut rows) = (String::new(), String::new(), String::new());
    for (p, program) in programs.iter().enumerate() {
        let mut listed = vec![];
        for (k, Kernel { text, cube }) in program.kernels.iter().enumerate() {
            let (name, body) = (format!("p{p}k{k}"), body_line(text));
            files.push((format!("{name}.cpp"), without_includes(&marked(text, body), &mut includes)));
            let _ = writeln!(
                parts,
                "#define kernel_entry entry_of_{name}\nnamespace {name} {{\n#include \"{name}.cpp\"\n}}\n#undef kernel_entry"
            );
            let _ = writeln!(table, "const Kernel {name}{{::{name}::entry_of_{name}, {body}, {cube}}};");
            listed.push(format!("&{name}"));
        }
        let mut orchestration = "nullptr, nullptr".to_owned();
        if let Some(o) = program.orchestration {
            let name = format!("p{p}");
            files.push((format!("{name}.cpp"), without_includes(o.text, &mut includes)));
            let _ = writeln!(
                parts,
                "#define {0} config_of_{name}\n#define {1} run_of_{name}\nnamespace {name} {{\n#include \"{name}.cpp\"\n}}\n\
                 #undef {0}\n#undef {1}\n#undef EXPORTED",
                o.config, o.run
            );
            orchestration = format!("::{name}::config_of_{name}, ::{name}::run_of_{name}");
        }
        let _ = writeln!(table, "const Kernel *const kernels_of_{p}[] = {{{}}};", listed.join(", "));
        let _ = writeln!(rows, "    {{kernels_of_{p}, {}, {{{orchestration}}}}},", listed.len());
    }
    let headers: String = includes.iter().map(|line| format!("{line}\n")).collect();
    let [before, behind] = AS_THEY_ARE;
    let main = format!(
        "#include \"{HEADERS}\"\n{before}\n{parts}{behind}\nnamespace standin {{\n{table}const Program programs[] = {{\n{rows}}};\nconst int program_count = {};\n}}\n",
        programs.len()
    );
    files.push((MAIN.to_owned(), main));
    Unit { headers, files }
}
