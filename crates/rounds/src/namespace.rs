//! Namespaces: names with dots, such as `collectives.ring` and `mine.all_reduce.ring`.
//!
//! The files of the built-in library are the modules of the namespace [`LIBRARY`]. A file can give
//! names to further namespaces, each of which is a file with the files that it uses
//! (`docs/reference/language.md`, "Namespaces"). This module looks up names in them. What a name
//! without a namespace means is in [`crate::library`].

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};

use crate::ast::Ident;
pub use crate::library::{LIBRARY, Space};
use crate::library::{Layer, Library, Unit, in_library};
use crate::scope::{Fault, unknown};

impl Library {
    /// Gives a file of the built-in library its name as a module.
    pub fn add_module(&mut self, name: &str, file: FileId) {
        self.derived.clear();
        self.modules.insert(name.to_owned(), file);
    }

    /// Gives a namespace a name in the file that contains `name`, which must have been added.
    pub fn add_space(&mut self, name: Ident, of: Space) {
        self.derived.clear();
        if let Some(unit) = self.units.iter_mut().find(|u| u.file == name.span.file) {
            unit.spaces.push((name, of));
        }
    }

    /// Declares that no file sees this one except by a namespace.
    pub fn set_apart(&mut self, file: FileId) {
        self.derived.clear();
        self.units.iter_mut().filter(|u| u.file == file).for_each(|u| u.apart = true);
    }

    /// Returns E004 for each namespace of a file whose name is already used: by another one, by the
    /// library, or by a collective, which may also stand before a dot.
    pub fn check_spaces(&self, file: FileId) -> Diagnostics {
        let mut found = Diagnostics::new();
        let Some(unit) = self.units.iter().find(|u| u.file == file) else { return found };
        for (i, (name, _)) in unit.spaces.iter().enumerate() {
            let first = unit.spaces[..i].iter().find(|s| s.0.node == name.node).map(|s| s.0.span);
            let coll = self.lookup(file, |u| u.collectives.get(&name.node).copied());
            let (title, other) = match (first, coll) {
                _ if name.node == LIBRARY => {
                    (format!("`{LIBRARY}` is the namespace of the library"), Span::NONE)
                }
                (Some(first), _) => (format!("namespace `{}` is declared twice", name.node), first),
                (None, Some(c)) => {
                    let title = format!("`{}` is the name of a collective", name.node);
                    (title, self.collective_name(c).span)
                }
                (None, None) => continue,
            };
            let d = Diagnostic::error("E004", title).primary(name.span, "declared again here");
            let d = if other.is_none() { d } else { d.secondary(other, "first declared here") };
            found.push(d.help("choose another name"));
        }
        found
    }

    /// Returns whether a file has been added.
    pub fn knows(&self, file: FileId) -> bool {
        self.units.iter().any(|u| u.file == file)
    }

    /// Returns the namespace that a name such as `mine` or `collectives.ring` stands for in a file.
    pub fn space(&self, from: FileId, name: &str) -> Option<Space> {
        let mut words = name.split('.');
        let first = words.next()?;
        let start = if first == LIBRARY { Space::Library } else { self.space_in(from, first)? };
        words.try_fold(start, |space, word| match space {
            Space::Library => self.modules.get(word).map(|f| Space::File(*f)),
            Space::File(file) => self.space_in(file, word),
        })
    }

    /// Text that belongs to no file knows the namespaces of all files.
    fn space_in(&self, file: FileId, name: &str) -> Option<Space> {
        let nowhere = !self.knows(file);
        let seen = self.units.iter().filter(|u| u.file == file || nowhere && !u.apart);
        seen.flat_map(|u| &u.spaces).find(|s| s.0.node == name).map(|s| s.1)
    }

    /// Returns the files of a namespace in the order of lookup.
    pub fn files_of(&self, space: Space) -> Vec<FileId> {
        self.members(space).into_iter().map(|i| self.units[i].file).collect()
    }

    fn members(&self, space: Space) -> Vec<usize> {
        match space {
            Space::Library => {
                (0..self.units.len()).filter(|&i| self.units[i].layer == Layer::Library).collect()
            }
            Space::File(file) => self.used(file, &mut |_| {}),
        }
    }

    /// Returns the namespaces that can be named in a file, with the files that they consist of. The
    /// modules of the library are the last ones.
    pub fn spaces(&self, from: FileId) -> Vec<(String, Space)> {
        let nowhere = !self.knows(from);
        let own = self.units.iter().filter(|u| u.file == from || nowhere && !u.apart).flat_map(|u| &u.spaces);
        let mut out: Vec<(String, Space)> = own.map(|(n, s)| (n.node.clone(), *s)).collect();
        out.push((LIBRARY.to_owned(), Space::Library));
        out.extend(self.modules.iter().map(|(n, f)| (in_library(n), Space::File(*f))));
        out
    }

    /// Returns the namespace of a file: a module of the library, `collectives.ring`, or the name
    /// that the first file to do so gives it.
    pub fn namespace_of(&self, file: FileId) -> Option<String> {
        let module = self.modules.iter().find(|m| *m.1 == file).map(|m| in_library(m.0));
        let given = || self.units.iter().flat_map(|u| &u.spaces).find(|s| s.1 == Space::File(file));
        module.or_else(|| given().map(|s| s.0.node.clone()))
    }

    /// Returns what the first file that has it declares by a name, which may begin with a
    /// namespace.
    pub(crate) fn named<T>(
        &self,
        from: FileId,
        name: &str,
        get: impl Fn(&Unit, &str) -> Option<T>,
    ) -> Option<T> {
        let Some((space, last)) = name.rsplit_once('.') else {
            return self.lookup(from, |u| get(u, name));
        };
        let members = self.members(self.space(from, space)?);
        members.into_iter().find_map(|i| get(&self.units[i], last))
    }

    /// Returns what [`Library::named`] does for an algorithm. Its collective may stand before its
    /// name. `get` is given the collective, if it stands there, and the name.
    pub(crate) fn named_algorithm<T>(
        &self,
        from: FileId,
        name: &str,
        mut get: impl FnMut(&Unit, Option<&str>, &str) -> Option<T>,
    ) -> Option<T> {
        let Some((before, last)) = name.rsplit_once('.') else {
            return self.lookup(from, |u| get(u, None, name));
        };
        if let Some(space) = self.space(from, before) {
            return self.members(space).into_iter().find_map(|i| get(&self.units[i], None, last));
        }
        let (space, coll) = match before.rsplit_once('.') {
            Some((space, coll)) => (Some(space), coll),
            None => (None, before),
        };
        match space {
            None => self.lookup(from, |u| get(u, Some(coll), last)),
            Some(space) => {
                let members = self.members(self.space(from, space)?);
                members.into_iter().find_map(|i| get(&self.units[i], Some(coll), last))
            }
        }
    }

    /// Returns E005 for a name that may begin with a namespace, with the valid names: of the
    /// namespace, of the collective before the name, or else those that the file sees. `list` gives
    /// the names of one file.
    pub(crate) fn unknown_name(
        &self,
        what: &str,
        (from, name, span): (FileId, &str, Span),
        list: impl Fn(&Unit) -> Vec<String>,
    ) -> Fault {
        let Some((before, _)) = name.rsplit_once('.') else {
            let mut valid = vec![];
            self.visit(from, |u| valid.extend(list(u)));
            return self.with_spaces(*unknown("E005", what, name, span, &valid), (from, name), list);
        };
        let members = match (self.space(from, before), before.rsplit_once('.')) {
            (Some(space), _) => Some(self.members(space)),
            // A collective stands before the name of an algorithm.
            (None, Some((space, coll))) if self.is_collective(from, before, coll) => {
                self.space(from, space).map(|s| self.members(s))
            }
            (None, None) if self.is_collective(from, before, before) => Some(self.order(from)),
            (None, _) => None,
        };
        let Some(members) = members else { return self.no_space(from, before, (name, span)) };
        let valid = members.into_iter().flat_map(|i| list(&self.units[i]));
        let valid: Vec<String> = valid.map(|v| format!("{before}.{v}")).collect();
        unknown("E005", what, name, span, &valid)
    }

    /// Returns E005 for a name of another kind of declaration that is not in its namespace, or
    /// whose namespace is unknown; None for a name without one. `list` gives the names of one file.
    pub fn unknown_in_space(
        &self,
        what: &str,
        name: &Ident,
        list: &dyn Fn(FileId) -> Vec<String>,
    ) -> Option<Fault> {
        let (from, before) = (name.span.file, name.node.rsplit_once('.')?.0);
        let Some(space) = self.space(from, before) else {
            return Some(self.no_space(from, before, (&name.node, name.span)));
        };
        let valid = self.files_of(space).into_iter().flat_map(list);
        let valid: Vec<String> = valid.map(|v| format!("{before}.{v}")).collect();
        Some(unknown("E005", what, &name.node, name.span, &valid))
    }

    /// Returns whether a word before the last dot is a collective.
    fn is_collective(&self, from: FileId, qualified: &str, word: &str) -> bool {
        let seen = |name: &str| self.named(from, name, |u, name| u.collectives.get(name).copied()).is_some();
        seen(qualified) || seen(word)
    }

    /// Adds the namespaces of the file that have an unknown name.
    fn with_spaces(
        &self,
        d: Diagnostic,
        (from, name): (FileId, &str),
        list: impl Fn(&Unit) -> Vec<String>,
    ) -> Fault {
        let own = self.units.iter().filter(|u| u.file == from).flat_map(|u| &u.spaces);
        let has =
            |s: &Space| self.members(*s).into_iter().any(|i| list(&self.units[i]).iter().any(|n| n == name));
        let names: Vec<String> =
            own.filter(|s| has(&s.1)).map(|s| format!("`{}.{name}`", s.0.node)).collect();
        Box::new(if names.is_empty() { d } else { d.help(format!("did you mean {}?", names.join(" or "))) })
    }

    /// Returns E005 for a namespace that a file does not know. `at` is the whole name and its
    /// place.
    fn no_space(&self, from: FileId, space: &str, (name, span): (&str, Span)) -> Fault {
        // The place may be one where the name does not stand as it is.
        let exact = (span.end - span.start) as usize == name.len();
        let at = if exact { Span { end: span.start + space.len() as u32, ..span } } else { span };
        let all: Vec<String> = self.spaces(from).into_iter().map(|s| s.0).collect();
        let first = space.split('.').next().unwrap_or(space);
        let known = self.space(from, first).is_some();
        let valid: Vec<String> = all
            .iter()
            .filter(|s| known == s.starts_with(&format!("{first}.")) || !s.contains('.'))
            .cloned()
            .collect();
        let mut d = *unknown("E005", "namespace", space, at, &valid);
        if d.help.is_none()
            && let Some(near) = nearest(space, all.iter().map(String::as_str))
        {
            d = d.help(format!("did you mean `{near}`?"));
        }
        Box::new(d)
    }

    /// Returns the namespace with this name.
    ///
    /// # Errors
    /// Returns E005 with the valid names.
    pub fn find_space(&self, from: FileId, name: &Ident) -> Result<Space, Fault> {
        self.space(from, &name.node).ok_or_else(|| self.no_space(from, &name.node, (&name.node, name.span)))
    }
}
