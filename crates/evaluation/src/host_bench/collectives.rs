//! Collectives of the benchmark: the program of kbc, and the call of MPI that does the same.

use kbc_compiler::failure::Outcome;
use kbc_compiler::load::library;
use kbc_compiler::workspace::Workspace;

/// A collective that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BenchCollective {
    /// Its name in the library.
    pub name: &'static str,
    /// The type of the program that is this collective, with elements of f32: S, the bytes of a
    /// rank's whole vector, are those of `n` elements.
    program: &'static str,
    /// The call of MPI, in C: from `x` to `out` on `p` ranks, with `n` elements in the whole
    /// vector.
    call: &'static str,
}

/// All collectives that are measured, in the order of the report.
pub const BENCH_COLLECTIVES: [BenchCollective; 5] = [
    BenchCollective {
        name: "all_reduce",
        program: "x: f32[n] partial(sum@tp)) -> f32[n]",
        call: "MPI_Allreduce(x, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);",
    },
    BenchCollective {
        name: "all_gather",
        program: "x: f32[n@tp]) -> f32[n]",
        call: "MPI_Allgather(x, n / p, MPI_FLOAT, out, n / p, MPI_FLOAT, MPI_COMM_WORLD);",
    },
    BenchCollective {
        name: "reduce_scatter",
        program: "x: f32[n] partial(sum@tp)) -> f32[n@tp]",
        call: "MPI_Reduce_scatter_block(x, out, n / p, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);",
    },
    BenchCollective {
        name: "broadcast",
        program: "x: f32[n] only(0@tp)) -> f32[n]",
        // MPI broadcasts in place. The program has a result beside its input, on the root, too.
        call: "if (me->rank == 0) memcpy(out, x, (size_t)n * sizeof(float));\n    \
               MPI_Bcast(out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);",
    },
    BenchCollective {
        name: "all_to_all",
        program: "x: f32[tp@tp, n]) -> f32[tp, n@tp]",
        call: "MPI_Alltoall(x, n / p, MPI_FLOAT, out, n / p, MPI_FLOAT, MPI_COMM_WORLD);",
    },
];

/// Bytes of an element.
pub const ELEMENT: u64 = 4;

impl BenchCollective {
    /// Returns the collective of a name.
    pub fn named(name: &str) -> Option<BenchCollective> {
        BENCH_COLLECTIVES.into_iter().find(|c| c.name == name)
    }

    /// The program on a number of ranks and with a number of elements of f32: the name of its file,
    /// which only exists as a text, and the text.
    pub fn text(&self, ranks: u64, count: u64) -> (String, String) {
        self.text_of("f32", ranks, count)
    }

    /// The same with elements of a type.
    pub fn text_of(&self, dtype: &str, ranks: u64, count: u64) -> (String, String) {
        let program = self.program.replace("f32", dtype);
        let text = format!(
            "param tp = {ranks}\nparam n = {count}\n\
             topology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\n\
             mesh m = sys[tp]\n\nprogram {}_bench({program} {{ x }}\n",
            self.name
        );
        (format!("{}_{ranks}_{count}.kb", self.name), text)
    }

    /// Returns the number of elements for a size in bytes: at least one for each rank, and the same
    /// number for each.
    pub fn count(&self, ranks: u64, bytes: u64) -> u64 {
        bytes.div_ceil(ELEMENT).div_ceil(ranks).max(1) * ranks
    }

    /// Returns the algorithms of the library for the collective over one axis, by name.
    ///
    /// # Errors
    /// Those of reading the library.
    pub fn algorithms(&self, workspace: &mut Workspace) -> Outcome<Vec<String>> {
        let library = library(workspace, &[], &[])?;
        let all = library.algorithms().map(|id| library.algorithm(id));
        let own = all.filter(|a| a.coll.node == self.name && a.axes.len() == 1);
        let mut out: Vec<String> = own.map(|a| a.name.node.clone()).collect();
        out.sort();
        out.dedup();
        Ok(out)
    }

    /// Returns a program in C that makes the collective of MPI on the data of an emitted program:
    /// with the same inputs, comparison, and measurement. `kernel` is the name of that program, in
    /// whose folder the C belongs.
    pub fn peer(&self, kernel: &str) -> String {
        include_str!("peer.c").replace("@NAME@", kernel).replace("@CALL@", self.call)
    }
}
