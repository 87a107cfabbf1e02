//! Parameters: `param`, `-D`, and the constant expressions of the program half.
//!
//! A parameter may use the parameters and functions that its file sees, in any order. Functions and
//! algorithms see parameters, too. [`super::constant`] evaluates expressions.

use super::constant::{Constants, Empty, number, value};
use super::locals::{Constant, Local, Locals};
use super::values::ParamValue;
use crate::ast::{Item, ParamDecl};
use crate::loaded::Loaded;
use crate::parse;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, Span};
use kbc_ir::types::DType;
use kbc_rounds::Library;
use kbc_rounds::ast::{Expr, ExprKind, FnDecl, Ident};
use kbc_rounds::eval::{ConcreteEvaluator, Fault, Functions, Scope, Value, unknown};
use kbc_rounds::library::Layer;
use kbc_rounds::scope::{Parameter, not_an_integer};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// The longest chain of parameters that are defined by one another.
const MAX_CHAIN: usize = 200;

/// The share of [`MAX_CHAIN`] that a parameter takes if a function uses it. Such a step nests whole
/// evaluations, and not only parameters.
const THROUGH_FUNCTION: usize = 20;

/// A parameter, identified by the place of its name.
type Key = Span;

/// The parameters of all files, with the values that the command line gives.
pub(super) struct Params<'a> {
    loaded: &'a Loaded,
    root: FileId,
    /// Values from `-D`.
    given: BTreeMap<Key, ParamValue>,
    /// Values from `--topology`.
    bound: BTreeMap<Key, ParamValue>,
    /// Names that are not parameters of a file but may be given, with their values or defaults.
    extras: Vec<(String, Option<ParamValue>)>,
    /// The values computed so far. None while a value is being computed.
    known: RefCell<BTreeMap<Key, Option<Result<ParamValue, Fault>>>>,
    /// The number of parameters that are being computed.
    depth: Cell<usize>,
    /// The parameters that each of the user's files sees, by name. Files of the library see no
    /// parameters.
    seen: BTreeMap<FileId, BTreeMap<&'a str, &'a ParamDecl>>,
}

/// Returns the parameters that a file sees. For each name, this is the first one.
fn by_name(loaded: &Loaded, from: FileId) -> BTreeMap<&str, &ParamDecl> {
    let mut names = BTreeMap::new();
    for p in loaded.params(from) {
        names.entry(p.name.node.as_str()).or_insert(p);
    }
    names
}

impl<'a> Params<'a> {
    /// Returns the parameters that `root` sees, with the values of `-D`. `extras` are names, with
    /// defaults, that may be given in addition to the file's parameters.
    ///
    /// # Errors
    /// Returns E420 for a name that is not a parameter, and E421 for an invalid value.
    pub fn new(
        loaded: &'a Loaded,
        root: FileId,
        defines: &[(String, String)],
        extras: Vec<(String, Option<ParamValue>)>,
    ) -> Result<Self, Diagnostics> {
        let mut params = Params {
            loaded,
            root,
            given: BTreeMap::new(),
            bound: BTreeMap::new(),
            extras,
            known: RefCell::default(),
            depth: Cell::new(0),
            seen: loaded
                .files
                .iter()
                .filter(|f| f.layer == Layer::User)
                .map(|f| (f.id, by_name(loaded, f.id)))
                .collect(),
        };
        let mut found = Diagnostics::new();
        for (name, text) in defines {
            if let Err(d) = params.define(name, text) {
                found.push(*d);
            }
        }
        if found.is_empty() { Ok(params) } else { Err(found) }
    }

    fn define(&mut self, name: &str, text: &str) -> Result<(), Fault> {
        let value = self.command_line(name, text)?;
        let decl = self.loaded.param(self.root, name);
        let extra = self.extras.iter().position(|e| e.0 == name);
        let wanted = match (decl, extra) {
            (Some(p), _) => self.value(&p.value).ok(),
            (None, Some(i)) => self.extras[i].1,
            (None, None) => {
                let mut valid: Vec<String> =
                    self.loaded.params(self.root).map(|p| p.name.node.clone()).collect();
                valid.extend(self.extras.iter().map(|e| e.0.to_owned()));
                valid.extend(self.loaded.qualified_params(self.root));
                let mut d = *unknown("E420", "parameter", name, Span::NONE, &valid);
                d.labels.clear();
                d.title = format!("-D {name}={text}: the program has no parameter `{name}`");
                return Err(Box::new(d));
            }
        };
        if let (Some(ParamValue::Int(_)), ParamValue::Float(_)) = (wanted, value) {
            let place = decl.map_or(Span::NONE, |p| p.name.span);
            return Err(Box::new(
                not_a_value(name, text, &format!("{name} must be an integer; {text} is a float"))
                    .secondary(place, "declared here"),
            ));
        }
        let of_types = |v: Option<ParamValue>| matches!(v, Some(ParamValue::Type(_)));
        if of_types(wanted) != of_types(Some(value)) {
            let kind = if of_types(wanted) { "an element type" } else { "a number" };
            let place = decl.map_or(Span::NONE, |p| p.name.span);
            return Err(Box::new(
                not_a_value(name, text, &format!("{name} must be {kind}")).secondary(place, "declared here"),
            ));
        }
        if let Some(i) = extra {
            self.extras[i].1 = Some(value);
        }
        if let Some(p) = decl {
            self.given.insert(p.name.span, value);
        }
        // Values that were computed while this one was checked may depend on it.
        self.known.borrow_mut().clear();
        Ok(())
    }

    /// Returns the value of `-D name=text`.
    fn command_line(&self, name: &str, text: &str) -> Result<ParamValue, Fault> {
        // The text is parsed as the value of a `param`, in no file, so spans have no place.
        let (tree, found) = parse(Span::NONE.file, &format!("param value = {text}"));
        let fault = found.list.iter().find(|d| d.severity == Severity::Error);
        match (&tree.items[..], fault) {
            (_, Some(d)) => Err(Box::new(not_a_value(name, text, &d.title))),
            ([Item::Param(p)], None) => {
                if let Some(t) = element_type(&p.value) {
                    return Ok(ParamValue::Type(t));
                }
                number(&p.value, &ConcreteEvaluator::new(self), &Empty)
                    .map_err(|d| Box::new(not_a_value(name, text, &d.title)))
            }
            _ => Err(Box::new(not_a_value(name, text, "it is not one expression"))),
        }
    }

    /// Gives a parameter the size that results from `--topology`.
    ///
    /// # Errors
    /// Returns E422 if `-D` gives another value.
    pub fn bind(&mut self, decl: &ParamDecl, size: i64, machine: &str) -> Result<(), Fault> {
        let (name, value) = (&decl.name.node, ParamValue::Int(size));
        if let Some(given) = self.given.get(&decl.name.span).filter(|g| **g != value) {
            return Err(Box::new(
                Diagnostic::error("E422", format!("-D {name}={given} and --topology '{machine}' disagree"))
                    .note(format!(
                        "`{name}` is a size of the topology that --topology replaces, and {machine} sets it to {size}"
                    ))
                    .secondary(decl.name.span, "this parameter")
                    .help(format!("remove -D {name}, or give a topology of that size")),
            ));
        }
        self.rebind(decl, size);
        Ok(())
    }

    /// Gives a parameter another size once the machine is built, even if `-D` gives one: the
    /// written shape has that one, and the devices that are left are fewer.
    pub fn rebind(&mut self, decl: &ParamDecl, size: i64) {
        self.bound.insert(decl.name.span, ParamValue::Int(size));
        self.known.borrow_mut().clear();
    }

    /// Returns the parameter with this name that a file sees.
    pub fn find(&self, from: FileId, name: &str) -> Option<&'a ParamDecl> {
        if name.contains('.') {
            self.loaded.param(from, name)
        } else {
            self.seen.get(&from)?.get(name).copied()
        }
    }

    /// Returns the value of one of the extra names: from `-D`, from the file's parameter with that
    /// name, or its default.
    ///
    /// # Errors
    /// Returns the errors of the parameter's expression.
    pub fn extra(&self, name: &str) -> Result<Option<ParamValue>, Fault> {
        match self.find(self.root, name) {
            Some(p) if self.extras.iter().any(|e| e.0 == name) => self.of(p).map(Some),
            _ => Ok(self.extras.iter().find(|e| e.0 == name).and_then(|e| e.1)),
        }
    }

    /// Returns the value of a parameter.
    ///
    /// # Errors
    /// Returns E010 if the parameter is defined by itself or through too many others, or the errors
    /// of its expression.
    pub fn of(&self, decl: &ParamDecl) -> Result<ParamValue, Fault> {
        let key = decl.name.span;
        if let Some(v) = self.bound.get(&key).or(self.given.get(&key)) {
            return Ok(*v);
        }
        match self.known.borrow().get(&key) {
            Some(Some(v)) => return v.clone(),
            Some(None) => {
                return Err(Box::new(
                    Diagnostic::error(
                        "E010",
                        format!("the definition of parameter `{}` depends on itself", decl.name.node),
                    )
                    .primary(decl.value.span, "this depends on the parameter"),
                ));
            }
            None => {}
        }
        if self.depth.get() >= MAX_CHAIN {
            return Err(Box::new(
                Diagnostic::error(
                    "E010",
                    format!(
                        "definitions of parameters depend on one another more than {MAX_CHAIN} levels deep"
                    ),
                )
                .primary(decl.name.span, "here"),
            ));
        }
        self.known.borrow_mut().insert(key, None);
        self.depth.set(self.depth.get() + 1);
        let value = self.value(&decl.value);
        self.depth.set(self.depth.get() - 1);
        self.known.borrow_mut().insert(key, Some(value.clone()));
        value
    }

    /// Returns the value of a `param`: a number, or an element type.
    fn value(&self, e: &Expr) -> Result<ParamValue, Fault> {
        if let ExprKind::Name(n) = &e.kind {
            match self.find(e.span.file, n).map(|p| self.of(p)) {
                Some(Ok(ParamValue::Type(t))) => return Ok(ParamValue::Type(t)),
                Some(_) => {}
                None => {
                    if let Some(t) = element_type(e) {
                        return Ok(ParamValue::Type(t));
                    }
                }
            }
        }
        self.number(e)
    }

    /// Returns the element type for which a parameter stands, if it is one that the file sees.
    pub fn dtype(&self, from: FileId, name: &str) -> Option<DType> {
        match self.find(from, name).map(|p| self.of(p)) {
            Some(Ok(ParamValue::Type(t))) => Some(t),
            _ => None,
        }
    }

    /// Evaluates an expression of integers and numbers.
    ///
    /// # Errors
    /// Returns E005 for an unknown name, E006 for the arguments of a function, and E010 for
    /// arithmetic.
    pub fn number(&self, e: &Expr) -> Result<ParamValue, Fault> {
        self.number_in(e, &Locals::default())
    }

    /// Evaluates an expression inside a program that is being lowered, whose own names come first.
    ///
    /// # Errors
    /// Fails as [`Params::number`] does.
    pub fn number_in(&self, e: &Expr, locals: &Locals) -> Result<ParamValue, Fault> {
        number(e, &ConcreteEvaluator::new(self), &self.visible(e, locals)?)
    }

    /// Evaluates a condition inside a program that is being lowered.
    ///
    /// # Errors
    /// Fails as [`Params::number`] does, and returns E010 if the value is not a truth value.
    pub fn truth_in(&self, e: &Expr, locals: &Locals) -> Result<bool, Fault> {
        match value(e, &ConcreteEvaluator::new(self), &self.visible(e, locals)?)? {
            Constant::Flag(b) => Ok(b),
            Constant::Number(n) => Err(Box::new(
                Diagnostic::error("E010", format!("expected a truth value, found {n}"))
                    .primary(e.span, "here")
                    .help("write `true`, `false` or a comparison"),
            )),
        }
    }

    /// Returns the scope with the values of the names in an expression.
    fn visible<'p>(&'p self, e: &Expr, locals: &'p Locals) -> Result<Visible<'p, 'a>, Fault> {
        let mut scope = Visible { params: self, file: e.span.file, values: BTreeMap::new(), locals };
        // Names are evaluated first, so that a chain of parameters does not cause deep recursion
        // through expressions.
        let mut all = vec![];
        e.free_names(&mut |name, span| all.push((name, span)));
        for (name, span) in all {
            if scope.values.contains_key(name) {
                continue;
            }
            if let Some(Local::Unbound(fault)) = locals.get(name) {
                return Err(fault.clone());
            }
            if let Some(v) = locals.get(name).and_then(Local::constant) {
                scope.values.insert(name.to_owned(), v);
            } else if let Some(p) = self.find(span.file, name) {
                let v = match self.of(p)? {
                    ParamValue::Type(t) => {
                        return Err(Box::new(
                            Diagnostic::error("E010", format!("`{name}` is the element type {t}"))
                                .primary(span, "a number is wanted here")
                                .secondary(p.name.span, "declared here"),
                        ));
                    }
                    number => Constant::Number(number),
                };
                scope.values.insert(name.to_owned(), v);
            }
        }
        Ok(scope)
    }

    /// Evaluates an expression that must be an integer.
    ///
    /// # Errors
    /// Fails as [`Params::number`] does, and returns E010 if the value has a fraction.
    pub fn int(&self, e: &Expr) -> Result<i64, Fault> {
        self.int_in(e, &Locals::default())
    }

    /// Evaluates an expression that must be an integer, inside a program that is being lowered.
    ///
    /// # Errors
    /// Fails as [`Params::int`] does.
    pub fn int_in(&self, e: &Expr, locals: &Locals) -> Result<i64, Fault> {
        match self.number_in(e, locals)? {
            ParamValue::Int(i) => Ok(i),
            ParamValue::Float(x) => Err(Box::new(
                Diagnostic::error("E010", format!("expected an integer, found {x:?}"))
                    .primary(e.span, "this is not an integer"),
            )),
            ParamValue::Type(t) => Err(Box::new(
                Diagnostic::error("E010", format!("expected an integer, found the element type {t}"))
                    .primary(e.span, "here"),
            )),
        }
    }

    /// Returns the library in which functions and algorithms see the values of the parameters of
    /// their files.
    ///
    /// # Errors
    /// Returns the errors of the parameters' expressions.
    pub fn library(&self) -> Result<Library, Fault> {
        let mut out = self.loaded.library.clone();
        for (file, seen) in &self.seen {
            let mut values = BTreeMap::new();
            for (name, p) in seen {
                let value = match self.of(p)? {
                    ParamValue::Int(i) => Parameter::Int(i),
                    other => Parameter::Other(other.words()),
                };
                values.insert((*name).to_owned(), value);
            }
            out.set_parameters(*file, values);
        }
        Ok(out)
    }

    /// Returns all parameters that the root file sees, and the extra names that have a value.
    ///
    /// # Errors
    /// Returns the errors of their expressions.
    pub fn all(&self) -> Result<Vec<(String, ParamValue)>, Fault> {
        let mut out: Vec<(String, ParamValue)> = vec![];
        let mut names = BTreeSet::new();
        for p in self.loaded.params(self.root) {
            if names.insert(p.name.node.as_str()) {
                out.push((p.name.node.clone(), self.of(p)?));
            }
        }
        for (name, value) in &self.extras {
            if let (Some(v), true) = (value, out.iter().all(|o| o.0 != *name)) {
                out.push((name.clone(), *v));
            }
        }
        Ok(out)
    }
}

/// Functions, with the parameters that they see. A parameter is evaluated when a function needs it.
impl Functions for Params<'_> {
    fn function(&self, name: &Ident) -> Option<&FnDecl> {
        self.loaded.library.function(name)
    }
    fn unknown_function(&self, name: &Ident, more: &[String]) -> Fault {
        self.loaded.library.unknown_function(name, more)
    }
    fn parameter(&self, name: &str, span: Span) -> Option<Result<i64, Fault>> {
        let decl = self.find(span.file, name)?;
        self.depth.set(self.depth.get() + THROUGH_FUNCTION);
        let value = self.of(decl);
        self.depth.set(self.depth.get() - THROUGH_FUNCTION);
        Some(match value {
            Ok(ParamValue::Int(i)) => Ok(i),
            Ok(other) => Err(not_an_integer(name, &other.words(), span)),
            Err(d) => Err(d),
        })
    }
    fn parameter_names(&self, from: FileId) -> Vec<String> {
        self.seen.get(&from).map_or(vec![], |s| s.keys().map(|n| (*n).to_owned()).collect())
    }
}

/// Returns the element type that an expression names.
fn element_type(e: &Expr) -> Option<DType> {
    match &e.kind {
        ExprKind::Name(n) => DType::parse(n),
        _ => None,
    }
}

fn not_a_value(name: &str, text: &str, why: &str) -> Diagnostic {
    Diagnostic::error("E421", format!("-D {name}={text} is not a valid value: {why}"))
        .help(format!("write a number, such as -D {name}=8"))
}

struct Visible<'p, 'a> {
    params: &'p Params<'a>,
    file: FileId,
    values: BTreeMap<String, Constant>,
    /// The names of the program that is being lowered, for messages.
    locals: &'p Locals,
}

impl Scope for Visible<'_, '_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        match self.values.get(name) {
            Some(Constant::Number(ParamValue::Int(i))) => Some(Value::Int(*i)),
            Some(Constant::Flag(b)) => Some(Value::Bool(*b)),
            _ => None,
        }
    }
    fn names(&self) -> Vec<String> {
        let params = self.params.loaded.params(self.file).map(|p| p.name.node.clone());
        params.chain(self.locals.names()).collect()
    }
}

impl Constants for Visible<'_, '_> {
    fn float(&self, name: &str) -> Option<f64> {
        match self.values.get(name) {
            Some(Constant::Number(ParamValue::Float(x))) => Some(*x),
            _ => None,
        }
    }
}
