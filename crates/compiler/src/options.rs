//! Options of a compilation: the selected part of the file, the values of its parameters, and the
//! data of its inputs.

use crate::engine::Engine;

/// What of a file is meant, and with which values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Values of parameters, each as `NAME=VALUE`.
    pub define: Vec<String>,
    /// The topology that replaces the one of the program: a shape, or a machine file. Or the name
    /// of one of the topologies of the file.
    pub topology: Option<String>,
    /// The mesh, if the file has several.
    pub mesh: Option<String>,
    /// Settings of the machine, or rates of some links: `forward: drain`, `link x: 5 GB/s, 1 us`.
    pub set: Vec<String>,
    /// The program, if the file has several.
    pub program: Option<String>,
    /// The algorithm to compile, with its arguments, if the file has no program.
    pub algorithm: Option<String>,
    /// Number of ranks of an algorithm.
    pub ranks: Option<String>,
    /// Algorithms of the collectives for which the program names none.
    pub using: Vec<String>,
    /// What the order of additions must be: `fixed`, or `any`, which is the default.
    pub order: Option<String>,
    /// How long packed trees are searched: 0 to 16; the pipeline says it if it is absent.
    pub effort: Option<String>,
    /// The largest sum of bytes per rank up to which collectives become one; the program or the
    /// pipeline says it if it is absent.
    pub fuse: Option<String>,
}

impl Selection {
    /// The flags of the command line, each with its values in order.
    pub fn flags(&self) -> [(&'static str, &[String]); 11] {
        let Selection { define, topology, mesh, set, program, algorithm, ranks, using, order, effort, fuse } =
            self;
        [
            ("-D", define),
            ("--topology", topology.as_slice()),
            ("--mesh", mesh.as_slice()),
            ("--set", set),
            ("--program", program.as_slice()),
            ("--algorithm", algorithm.as_slice()),
            ("--ranks", ranks.as_slice()),
            ("--using", using),
            ("--order", order.as_slice()),
            ("--effort", effort.as_slice()),
            ("--fuse", fuse.as_slice()),
        ]
    }

    /// The flags of the command line, and whether each was given, for places where one means
    /// nothing.
    pub fn given(&self) -> [(&'static str, bool); 11] {
        self.flags().map(|(flag, values)| (flag, !values.is_empty()))
    }
}

/// What is compiled.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Name of the text: a path, or the name of a text that the workspace was given.
    pub file: String,
    /// The part of the file.
    pub of: Selection,
    /// Contract of an imported schedule: a `.kb` file with one `collective`.
    pub post: Option<String>,
}

impl Source {
    /// All of a file, with its own values.
    pub fn of(file: impl Into<String>) -> Self {
        Source { file: file.into(), ..Source::default() }
    }
}

/// Input and output data.
#[derive(Debug, Clone, Default)]
pub struct Data {
    /// Data of inputs, each as `NAME=FILE[:KEY]`.
    pub input: Vec<String>,
    /// The engine; machine code if none is named.
    pub engine: Option<Engine>,
    /// Results to be stored, each as `NAME=FILE[:KEY]`.
    pub output: Vec<String>,
}

/// How a source is compiled.
#[derive(Debug, Clone)]
pub struct Options {
    /// The passes, as `kbc list passes` lists them; `default` executes and times, `windows` is for
    /// emission.
    pub passes: String,
}

impl Default for Options {
    fn default() -> Self {
        Options { passes: "default".into() }
    }
}
