//! Parser of a machine's text: `torus(2, 3) { link: 50 GB/s, 500 ns; fence: 20 ns }`.
//!
//! The text occurs on the command line, in headers of `.kir` files and as values in machine files,
//! where the grammar of the front end is not available. Sizes are integers here. Expressions and
//! parameters belong to `.kb` files and are evaluated before.

use kbc_diag::{Diagnostic, FileId, Span, Spanned};

use super::links::{FAILED, LinkSet, Node, OwnLink};
use super::perturb::{Distribution, DrawnQuantity};
use super::quantity::{quantity, rate_in_bits, unit_names};
use super::settings::{Settings, link_rate};
use super::shape::{Shape, ShapeArgument};
use super::stated::{ROUTE, StatedRoute};
use super::value::SettingValue;
use super::{AXIS_NAMES, Direction, Topology};

/// Limit on the nesting of shapes.
const MAX_DEPTH: usize = 16;

/// What a node is called in messages.
const NODE: &str = "a device such as `(0,1)`, a switch such as `x.1#0` or a relay such as `#0`";

/// A machine as written, before it is built.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    /// The generator and its sizes.
    pub shape: Shape,
    /// The given settings.
    pub settings: Settings,
    /// Rates of single links and failed nodes in order. A later rate overrides an earlier one.
    pub links: Vec<OwnLink>,
    /// Routes of pairs.
    pub routes: Vec<StatedRoute>,
}

/// A description of a machine whose shape may be given elsewhere.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Described {
    /// The generator and its sizes.
    pub shape: Option<Shape>,
    /// The given settings.
    pub settings: Settings,
    /// Rates of single links and failed nodes in order. A later rate overrides an earlier one.
    pub links: Vec<OwnLink>,
    /// Routes of pairs.
    pub routes: Vec<StatedRoute>,
}

impl From<Written> for Described {
    fn from(Written { shape, settings, links, routes }: Written) -> Described {
        Described { shape: Some(shape), settings, links, routes }
    }
}

impl Described {
    /// Builds the machine of several descriptions, of which each overrides those before it.
    /// `absent` is the shape if none has one. Of the settings that a description does not give,
    /// those before it remain that have a meaning for its shape. Rates of links, failed nodes and
    /// routes of all add up, except that those before a shape are dropped if that shape or the one
    /// that it replaces has links of its own (`graph`, `package`). A failure takes the routes of
    /// descriptions before it with it. `at` is the position of the shape.
    ///
    /// # Errors
    /// Returns the errors of [`Topology::build`], [`Topology::set_links`], [`Topology::set_routes`]
    /// and [`Topology::connected`].
    pub fn stacked(
        layers: impl IntoIterator<Item = Described>,
        absent: Shape,
        at: Span,
    ) -> Result<Topology, Diagnostic> {
        let mut known: Option<Shape> = None;
        let mut all = Settings::default();
        let mut own: Vec<(Vec<OwnLink>, Vec<StatedRoute>)> = vec![];
        for Described { shape, settings, links, routes } in layers {
            if let Some(new) = &shape {
                if new.has_own_links() || known.as_ref().is_some_and(Shape::has_own_links) {
                    own.clear();
                }
                all = all.fitting(new);
            }
            known = shape.or(known);
            all = settings.over(&all);
            own.push((links, routes));
        }
        let mut topology = Topology::build(known.unwrap_or(absent), all, at)?;
        for (links, routes) in &own {
            topology.set_links(links)?;
            topology.set_routes(routes)?;
        }
        topology.connected(at)?;
        Ok(topology)
    }
}

/// Parses a shape and, if present, its settings.
///
/// # Errors
/// Returns E446 for malformed text, and the errors of [`Shape::from_call`] and [`Settings::set`],
/// with spans in `file`.
pub fn parse(text: &str, file: FileId) -> Result<Written, Diagnostic> {
    let mut reader = Reader { text, file, base: 0, at: 0 };
    let shape = reader.shape(0)?;
    let mut out = Written { shape, settings: Settings::default(), links: vec![], routes: vec![] };
    if reader.take('{') {
        while !reader.take('}') {
            reader.setting(&mut out)?;
            if !reader.take(';') {
                reader.expect('}', "`;` or `}` after a setting")?;
                break;
            }
        }
    }
    reader.end("the end, or settings in `{ }`")?;
    Ok(out)
}

/// Parses settings, rates of links and routes without a shape: `forward: drain; link x: 5 GB/s, 1
/// us`.
///
/// # Errors
/// Returns the errors of [`parse`].
pub fn settings(text: &str, file: FileId) -> Result<Described, Diagnostic> {
    let mut reader = Reader { text, file, base: 0, at: 0 };
    // The shape is a placeholder and not used.
    let shape = Shape::Ring(1);
    let mut out = Written { shape, settings: Settings::default(), links: vec![], routes: vec![] };
    loop {
        reader.setting(&mut out)?;
        if !reader.take(';') {
            break;
        }
    }
    reader.end("`;` or the end after a setting")?;
    Ok(Described { shape: None, ..out.into() })
}

/// A piece of a machine's text within a file.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'t> {
    /// The text.
    pub text: &'t str,
    /// The file that contains it. Spans point there.
    pub file: FileId,
    /// Byte offset in the file at which it begins.
    pub base: usize,
}

impl<'t> Fragment<'t> {
    fn reader(self) -> Reader<'t> {
        Reader { text: self.text, file: self.file, base: self.base, at: 0 }
    }

    /// Parses a shape without settings: `torus(2, 3)`.
    ///
    /// # Errors
    /// Returns E446 and the errors of [`Shape::from_call`].
    pub fn shape(self) -> Result<Shape, Diagnostic> {
        let mut reader = self.reader();
        let shape = reader.shape(0)?;
        reader.end("the end of the shape")?;
        Ok(shape)
    }

    /// Parses the values of a setting: `50 GB/s, 500 ns`.
    ///
    /// # Errors
    /// Returns E446 for malformed text.
    pub fn values(self) -> Result<Vec<Spanned<SettingValue>>, Diagnostic> {
        let mut reader = self.reader();
        let values = reader.values()?;
        reader.end("`,` or the end of the values")?;
        Ok(values)
    }

    /// Parses a number or a distribution: `2`, `uniform(1, 2)`, `exponential(2 us)`.
    ///
    /// # Errors
    /// Returns E446 and the errors of [`Distribution::new`].
    pub fn spread(self, of: DrawnQuantity) -> Result<Distribution, Diagnostic> {
        let mut reader = self.reader();
        let word = reader.word();
        if word.is_some() {
            reader.expect('(', "`(` after the name of a distribution")?;
        }
        let values = reader.values()?;
        if word.is_some() {
            reader.expect(')', "`,` or `)` after a value")?;
        }
        reader.end("the end of the distribution")?;
        Distribution::new(of, word.as_ref(), &values, reader.span(0))
    }

    /// Parses the links that are given a rate: those of [`Fragment::links`], or both directions
    /// between two nodes, `(0)<->#0`.
    ///
    /// # Errors
    /// Returns E446 for malformed text.
    pub fn link_sets(self) -> Result<Vec<LinkSet>, Diagnostic> {
        let mut reader = self.reader();
        let sets = reader.link_sets()?;
        reader.end("the end of the links")?;
        Ok(sets)
    }

    /// Parses a selector of links: `(0,1)->(0,2)`, `(0)->(1) -x`, `+x`, `x`.
    ///
    /// # Errors
    /// Returns E446 for malformed text.
    pub fn links(self) -> Result<LinkSet, Diagnostic> {
        let mut reader = self.reader();
        let set = reader.link_set()?;
        reader.end("the end of the links")?;
        Ok(set)
    }

    /// Parses nodes that have failed: `(0,1), x.1#0, #3`.
    ///
    /// # Errors
    /// Returns E446 for malformed text.
    pub fn nodes(self) -> Result<Vec<Spanned<Node>>, Diagnostic> {
        let mut reader = self.reader();
        let nodes = reader.nodes()?;
        reader.end("`,` or the end of the nodes")?;
        Ok(nodes)
    }

    /// Parses routes: `(0)->#1->(3), (3)->#1->(0)`, or both of them as `(0)<->#1<->(3)`.
    ///
    /// # Errors
    /// Returns E446 for malformed text.
    pub fn routes(self) -> Result<Vec<StatedRoute>, Diagnostic> {
        let mut reader = self.reader();
        let routes = reader.routes()?;
        reader.end("`,` or the end of the routes")?;
        Ok(routes)
    }

    /// Parses the coordinates of a device: `(0,1)`.
    ///
    /// # Errors
    /// Returns E446 for malformed text.
    pub fn coordinates(self) -> Result<Vec<u32>, Diagnostic> {
        let mut reader = self.reader();
        let c = reader.coordinates()?;
        reader.end("the end of the coordinates")?;
        Ok(c)
    }
}

/// Which of several links between two nodes is meant: the one of an axis and direction, and the
/// number among those that are alike.
type ChosenLink = (Option<(usize, Direction)>, Option<u32>);

struct Reader<'t> {
    text: &'t str,
    file: FileId,
    base: usize,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn span(&self, start: usize) -> Span {
        self.between(start, self.at)
    }

    /// Returns [`Reader::span`] without the blanks at its end.
    fn span_without_blanks(&self, start: usize) -> Span {
        let read = self.text.get(start..self.at).unwrap_or("");
        self.between(start, start + read.trim_end().len())
    }

    fn between(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, self.base + start, self.base + end)
    }

    fn end(&mut self, what: &str) -> Result<(), Diagnostic> {
        self.blanks();
        if self.rest().is_empty() { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Skips blanks, then takes the longest prefix of characters that satisfy `of`.
    fn run(&mut self, of: impl Fn(char) -> bool) -> Spanned<&'t str> {
        self.blanks();
        let (start, rest) = (self.at, self.rest());
        self.at += rest.find(|c| !of(c)).unwrap_or(rest.len());
        Spanned::new(&rest[..self.at - start], self.span(start))
    }

    fn word(&mut self) -> Option<Spanned<String>> {
        self.blanks();
        if !self.rest().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let word = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
        Some(Spanned::new(word.node.to_owned(), word.span))
    }

    fn take(&mut self, c: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn expect(&mut self, c: char, what: &str) -> Result<(), Diagnostic> {
        if self.take(c) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&mut self, what: &str) -> Diagnostic {
        self.blanks();
        let found = match self.rest().chars().next() {
            None => "the end of the text".to_owned(),
            Some(c) => format!("`{c}`"),
        };
        let end = self.at + self.rest().chars().next().map_or(0, char::len_utf8);
        Diagnostic::error("E446", format!("expected {what}, found {found}"))
            .primary(self.between(self.at, end), "here")
            .help("write a machine as in `torus(2, 3) { link: 50 GB/s, 500 ns; fence: 20 ns }`")
    }

    fn shape(&mut self, depth: usize) -> Result<Shape, Diagnostic> {
        let Some(name) = self.word() else {
            return Err(self.expected("the name of a topology generator"));
        };
        if depth > MAX_DEPTH {
            let title = format!("shapes nest more than {MAX_DEPTH} levels deep");
            return Err(Diagnostic::error("E446", title).primary(name.span, "here"));
        }
        // For an unknown name, report that instead of a missing parenthesis after it.
        if !super::shape::SHAPE_NAMES.contains(&name.node.as_str()) {
            return Shape::from_call(&name, &[]);
        }
        self.expect('(', "`(` after the generator's name")?;
        let mut parts = vec![];
        while !self.take(')') {
            parts.push(self.part(depth)?);
            if !self.take(',') {
                self.expect(')', "`,` or `)` after an argument")?;
                break;
            }
        }
        Shape::from_call(&name, &parts)
    }

    fn part(&mut self, depth: usize) -> Result<Spanned<ShapeArgument>, Diagnostic> {
        self.blanks();
        let start = self.at;
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let negative = self.take('-');
            let digits = self.run(|c| c.is_ascii_digit());
            if digits.node.is_empty() {
                return Err(self.expected("a size"));
            }
            let Ok(size) = digits.node.parse::<i64>() else {
                let title = "the size does not fit in 64 bits".to_owned();
                return Err(super::shape::out_of_range(title, digits.span));
            };
            let size = if negative { -size } else { size };
            return Ok(Spanned::new(ShapeArgument::Size(size), self.span(start)));
        }
        let shape = self.shape(depth + 1)?;
        Ok(Spanned::new(ShapeArgument::Shape(shape), self.span(start)))
    }

    fn setting(&mut self, out: &mut Written) -> Result<(), Diagnostic> {
        let Some(name) = self.word() else {
            return Err(self.expected("the name of a setting"));
        };
        self.blanks();
        if name.node == "link" && !self.rest().starts_with(':') {
            let start = self.at;
            let sets = self.link_sets()?;
            let span = self.span(start);
            self.expect(':', "`:` after the links")?;
            let rate = link_rate(name.span, &self.values()?)?;
            out.links.extend(sets.into_iter().map(|set| OwnLink { set: Spanned::new(set, span), rate }));
            return Ok(());
        }
        self.expect(':', "`:` after the setting's name")?;
        if name.node == FAILED {
            out.links.extend(self.nodes()?.into_iter().map(OwnLink::failed));
            return Ok(());
        }
        if name.node == ROUTE {
            out.routes.extend(self.routes()?);
            return Ok(());
        }
        let values = self.values()?;
        out.settings.set(&name, &values)
    }

    fn values(&mut self) -> Result<Vec<Spanned<SettingValue>>, Diagnostic> {
        let mut values = vec![self.value()?];
        while self.take(',') {
            values.push(self.value()?);
        }
        Ok(values)
    }

    /// Parses nodes: `(0,1), x.1#0, #3`.
    fn nodes(&mut self) -> Result<Vec<Spanned<Node>>, Diagnostic> {
        let mut out = vec![];
        loop {
            self.blanks();
            let start = self.at;
            let node = self.any_node()?;
            out.push(Spanned::new(node, self.span(start)));
            if !self.take(',') {
                return Ok(out);
            }
        }
    }

    /// Parses a device, a switch or a relay.
    fn any_node(&mut self) -> Result<Node, Diagnostic> {
        self.blanks();
        let start = self.at;
        if let Some(node) = self.node()? {
            return Ok(node);
        }
        match self.direction() {
            Ok((axis, None, Some(level))) => self.switch(axis, level),
            _ => {
                self.at = start;
                Err(self.expected(NODE))
            }
        }
    }

    /// Parses routes: `(0)->#1->(3), (3)->(1) -x->(0)`. `<->` in place of `->` adds the route back.
    fn routes(&mut self) -> Result<Vec<StatedRoute>, Diagnostic> {
        let mut out = vec![];
        loop {
            self.blanks();
            let start = self.at;
            let (mut at, mut from) = (start, self.any_node()?);
            let (mut links, mut back, mut both) = (vec![], vec![], None);
            while links.is_empty() || self.rest().trim_start().starts_with(['-', '<']) {
                let is_both = self.take('<');
                if both.is_some_and(|b| b != is_both) {
                    return Err(self.expected("the same arrow as before, `->` or `<->`"));
                }
                both = Some(is_both);
                self.expect('-', "`->` and the next node of the route")?;
                self.expect('>', "`->` and the next node of the route")?;
                self.blanks();
                let next = self.at;
                let to = self.any_node()?;
                let (direction, one) = self.one_of_several()?;
                let span = self.span_without_blanks(at);
                if is_both && (direction.is_some() || one.is_some()) {
                    return Err(Diagnostic::error("E446", "`<->` cannot choose one of several links")
                        .primary(span, "here")
                        .help("write two routes with `->`, each with its own choice"));
                }
                let link = |from: &Node, to: &Node| {
                    let (from, to) = (from.clone(), to.clone());
                    Spanned::new(LinkSet::Between { from, to, direction, one }, span)
                };
                back.insert(0, link(&to, &from));
                links.push(link(&from, &to));
                (at, from) = (next, to);
            }
            let span = self.span_without_blanks(start);
            out.push(StatedRoute { links, span });
            if both == Some(true) {
                out.push(StatedRoute { links: back, span });
            }
            if !self.take(',') {
                return Ok(out);
            }
        }
    }

    /// Parses the choice of one of several links between two nodes, if there is one: `-x` or `#2`.
    fn one_of_several(&mut self) -> Result<ChosenLink, Diagnostic> {
        self.blanks();
        let direction = match self.rest().starts_with(['+', '-']) && !self.rest().starts_with("->") {
            true => match self.direction()? {
                (axis, Some(direction), None) => Some((axis, direction)),
                _ => return Err(self.expected("`+` or `-` and an axis")),
            },
            false => None,
        };
        let one = if self.take('#') { Some(self.small("the number of the link")?) } else { None };
        Ok((direction, one))
    }

    /// Parses as [`Reader::link_set`] does, and `A<->B` as both directions.
    fn link_sets(&mut self) -> Result<Vec<LinkSet>, Diagnostic> {
        let start = self.at;
        if let Some(from) = self.node()?
            && self.take('<')
        {
            self.expect('-', "`<->` after a node")?;
            self.expect('>', "`<->` after a node")?;
            let Some(to) = self.node()? else {
                return Err(self.expected("a device such as `(0,1)` or a relay such as `#0`"));
            };
            let one = |from: &Node, to: &Node| LinkSet::Between {
                from: from.clone(),
                to: to.clone(),
                direction: None,
                one: None,
            };
            return Ok(vec![one(&from, &to), one(&to, &from)]);
        }
        self.at = start;
        Ok(vec![self.link_set()?])
    }

    fn link_set(&mut self) -> Result<LinkSet, Diagnostic> {
        let from = match self.node()? {
            Some(node) => node,
            None => {
                let (axis, direction, level) = self.direction()?;
                match (direction, level) {
                    (None, Some(level)) if self.rest().starts_with('#') => self.switch(axis, level)?,
                    _ => return Ok(LinkSet::Axis { axis, direction, level }),
                }
            }
        };
        self.expect('-', "`->` after the sender")?;
        self.expect('>', "`->` after the sender")?;
        let to = match self.node()? {
            Some(node) => node,
            None => match self.direction()? {
                (axis, None, Some(level)) => self.switch(axis, level)?,
                _ => return Err(self.expected(NODE)),
            },
        };
        let (direction, one) = self.one_of_several()?;
        Ok(LinkSet::Between { from, to, direction, one })
    }

    /// Parses a device `(0,1)` or a relay, `#0` or `router(0,1)`. None if something else follows.
    fn node(&mut self) -> Result<Option<Node>, Diagnostic> {
        self.blanks();
        if self.rest().starts_with('(') {
            return Ok(Some(Node::Device(self.coordinates()?)));
        }
        if self.take('#') {
            let at = vec![self.small("the number of the relay")?];
            return Ok(Some(Node::Relay { part: String::new(), at }));
        }
        let start = self.at;
        if let Some(part) = self.word()
            && self.rest().starts_with('(')
        {
            return Ok(Some(Node::Relay { part: part.node, at: self.coordinates()? }));
        }
        self.at = start;
        Ok(None)
    }

    /// Parses the rest of the name of a switch, after `x.1`.
    fn switch(&mut self, axis: usize, level: u32) -> Result<Node, Diagnostic> {
        self.expect('#', "`#` and the number of the switch")?;
        let number = self.small("the number of the switch")?;
        Ok(Node::Switch { axis, level, number })
    }

    /// Parses `x`, `+x` or `-x`, with a level in a tree of switches: `x.2`.
    fn direction(&mut self) -> Result<(usize, Option<Direction>, Option<u32>), Diagnostic> {
        let direction =
            if self.take('+') { Some(Direction::Plus) } else { self.take('-').then_some(Direction::Minus) };
        let Some(word) = self.word() else {
            return Err(self.expected("an axis, or a link such as `(0,1)->(0,2)`"));
        };
        let Some(axis) = AXIS_NAMES.iter().position(|a| *a == word.node) else {
            return Err(super::unknown("E446", "axis", &word.node, &AXIS_NAMES, word.span));
        };
        let level = match self.rest().starts_with('.') {
            true => {
                self.at += 1;
                Some(self.small("the level of the links")?)
            }
            false => None,
        };
        Ok((axis, direction, level))
    }

    /// Parses a number below 2^32.
    fn small(&mut self, what: &str) -> Result<u32, Diagnostic> {
        let digits = self.run(|c| c.is_ascii_digit());
        match digits.node.parse() {
            Ok(n) => Ok(n),
            Err(_) if digits.node.is_empty() => Err(self.expected(what)),
            Err(_) => {
                Err(Diagnostic::error("E446", format!("{what} is too large")).primary(digits.span, "here"))
            }
        }
    }

    fn coordinates(&mut self) -> Result<Vec<u32>, Diagnostic> {
        self.expect('(', "coordinates like `(0,1)`")?;
        let mut out = vec![];
        loop {
            out.push(self.small("a coordinate")?);
            if !self.take(',') {
                self.expect(')', "`,` or `)` after a coordinate")?;
                return Ok(out);
            }
        }
    }

    fn value(&mut self) -> Result<Spanned<SettingValue>, Diagnostic> {
        if let Some(word) = self.word() {
            return Ok(Spanned::new(SettingValue::Name(word.node), word.span));
        }
        let number = self.number();
        if number.node.is_empty() {
            return Err(self.expected("a number, a quantity or a name"));
        }
        let Ok(plain) = number.node.parse::<f64>() else {
            let title = format!("`{}` is not a number", number.node);
            return Err(Diagnostic::error("E446", title).primary(number.span, "here"));
        };
        let after = self.at;
        let Some(unit) = self.word() else {
            self.at = after;
            return Ok(Spanned::new(SettingValue::Number(plain), number.span));
        };
        let mut unit_text = unit.node;
        if self.rest().starts_with("/s") {
            self.at += 2;
            unit_text.push_str("/s");
        }
        let span = Span { end: (self.base + self.at) as u32, ..number.span };
        match quantity(number.node, &unit_text) {
            Some(q) => Ok(Spanned::new(SettingValue::Quantity(q), span)),
            None if unit_names().contains(&unit_text.as_str()) => {
                Err(Diagnostic::error("E446", "the number is too large").primary(span, "here"))
            }
            None => {
                let d = super::unknown("E446", "unit", &unit_text, &unit_names(), span);
                Err(match rate_in_bits(plain, &unit_text) {
                    Some(help) => d.help(help),
                    None => d,
                })
            }
        }
    }

    /// Takes the text of a number: digits, fraction, exponent.
    fn number(&mut self) -> Spanned<&'t str> {
        self.blanks();
        let start = self.at;
        self.run(|c| c.is_ascii_digit() || c == '.');
        let bytes = self.rest().as_bytes();
        let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
        if matches!(bytes.first(), Some(b'e' | b'E')) && bytes.get(1 + sign).is_some_and(u8::is_ascii_digit) {
            self.at += 1 + sign;
            self.run(|c| c.is_ascii_digit());
        }
        Spanned::new(self.text.get(start..self.at).unwrap_or(""), self.span(start))
    }
}
