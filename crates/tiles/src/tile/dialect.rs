//! Dialects: the names that a target gives to the roles of cores, memories and pipes.

use super::roles::{Core, Pipe, Space};

/// How a target names the parts of a core, in `.tile` text and in messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// Name of a vector core.
    pub vector_core: &'static str,
    /// Name of a matrix core.
    pub matrix_core: &'static str,
    /// Adjective of matrix cores in messages.
    pub matrix_word: &'static str,
    /// Names of the memories, in the order of [`Space::ALL`].
    pub spaces: [&'static str; Space::ALL.len()],
    /// Names of the pipes, in the order of [`Pipe::ALL`].
    pub pipes: [&'static str; Pipe::ALL.len()],
    /// Names that the target's text uses itself, and that no variable of a kernel may have.
    pub taken: &'static [&'static str],
    /// Why a tile that is compared has a whole number of steps.
    pub step_note: &'static str,
    /// What a mask tile holds.
    pub mask_note: &'static str,
}

impl Dialect {
    /// Returns the name of a kind of core.
    pub fn core(&self, core: Core) -> &'static str {
        match core {
            Core::Vector => self.vector_core,
            Core::Matrix => self.matrix_core,
            Core::Tasks => "tasks",
        }
    }

    /// Returns the name of a memory.
    pub fn space(&self, space: Space) -> &'static str {
        self.spaces[space as usize]
    }

    /// Returns the name of a memory as messages write it.
    pub fn space_title(&self, space: Space) -> String {
        self.space(space).to_uppercase()
    }

    /// Returns the name of a pipe.
    pub fn pipe(&self, pipe: Pipe) -> &'static str {
        self.pipes[pipe as usize]
    }

    /// Returns the kind of core with this name.
    pub fn find_core(&self, name: &str) -> Option<Core> {
        Core::ALL.into_iter().find(|c| self.core(*c) == name)
    }

    /// Returns the memory with this name.
    pub fn find_space(&self, name: &str) -> Option<Space> {
        Space::ALL.into_iter().find(|s| self.space(*s) == name)
    }

    /// Returns the pipe with this name.
    pub fn find_pipe(&self, name: &str) -> Option<Pipe> {
        Pipe::ALL.into_iter().find(|p| self.pipe(*p) == name)
    }
}
