//! Tests of attributes of other tools: they are read, kept and printed with their items.

use kbc_diag::FileId;
use kbc_ir::attributes::{Attribute, AttributeValue, Item};
use kbc_ir::text::{PrintOptions, equivalent, format, identical, parse, print, retain_attributes};

fn read(text: &str) -> kbc_ir::Module {
    parse(FileId(0), text).unwrap_or_else(|d| panic!("{text}: {:#?}", d.list))
}

const GRAPH: &str = "\
kir 1
module @m
mesh tp 4
x-author \"somebody\"
x-revision 12

graph
input @x : f32[8@tp] x-file \"a.npy\"

%x = input @x : f32[8@tp]
%y = all_gather %x over tp dim 0 using ring : f32[8] x-cost 1.5 x-my-note \"\\\"quoted\\\"\"
%y#1 = all_gather %x over tp dim 0 using ring : f32[8] x-cost 2
";

const SCHEDULE: &str = "\
kir 1
module @m
mesh tp 2

schedule calls none
buffer %x : f32[8] hbm input 0 : f32[8] x-role \"in\"
buffer %y : f32[8] hbm output 0 : f32[8]
window @w : f32[1 x 8] hbm x-bank 3
signal @s[1] arrival x-line 0
queue @q[1] : f32[1 x 8] hbm x-depth 1

host
  host.launch @r x-when 7
  host.drain

region @r over tp as (r of 2) x-kind \"shift\"
  on v = %x line 8
  role all
    stream main
      if r == 0
        put v -> (1 - r) : @w[0] x-id 1
        put v -> (1 - r) : @w[0] x-id 2
      else
        put v -> (1 - r) : @w[0] x-id 3
      put v -> (1 - r) : @w[0]
";

#[test]
fn attributes_read_back() {
    for text in [GRAPH.to_owned(), SCHEDULE.to_owned()] {
        let m = read(&text);
        assert_eq!(print(&m, &PrintOptions::default()), text);
        assert_eq!(format(FileId(0), &text).unwrap(), text);
        let full = print(&m, &PrintOptions { locs: true });
        let again = read(&full);
        assert!(identical(&m, &again), "{full}");
        // A text that loses an attribute is another module.
        let fewer = read(&text.replacen(" x-", " ;x-", 1));
        assert!(!equivalent(&m, &fewer), "{text}");
    }
}

/// An attribute belongs to its item, however the line is spelled and wherever it stands.
#[test]
fn attributes_belong_to_items() {
    let m = read(GRAPH);
    let cost = |v| Attribute { name: "x-cost".into(), value: AttributeValue::Float(v) };
    assert_eq!(m.attributes.of(&Item::Value(0, "y".into()))[0], cost(1.5));
    assert_eq!(m.attributes.of(&Item::Module).len(), 2);
    let text = SCHEDULE.to_owned();
    let spelled = text
        .replace("put v -> (1 - r) : @w[0] x-id", "put v[0 of 1] -> (((1) - r)) : @w[(0)]   x-id")
        .replace("v[0 of 1]", "v");
    assert!(spelled != text && equivalent(&read(&spelled), &read(&text)));
}

/// After a pass, the attributes of items that are gone are gone.
#[test]
fn attributes_go_with_their_items() {
    let mut m = read(GRAPH);
    let without =
        read(&GRAPH.replace("%y#1 = all_gather %x over tp dim 0 using ring : f32[8] x-cost 2\n", ""));
    m.body = without.body.clone();
    retain_attributes(&mut m);
    assert!(equivalent(&m, &without));
}

/// A difference of variables is no attribute, and other attributes are errors.
#[test]
fn what_is_no_attribute() {
    let head = "kir 1\nmodule @m\nmesh x 2, y 2\n\ngraph\n";
    let schedule = "kir 1\nmodule @m\nmesh x 2, y 2\n\nschedule calls none\nbuffer %a : f32[8 * x-y] hbm temp\n\
                    region @r local\n  role all where x-y\n    stream main\n";
    assert!(read(schedule).attributes.is_empty());
    for (text, code) in [
        (format!("{head}input @a : f32[8] x-a 1 x-a 2\n"), "E313"),
        (format!("{head}input @a : f32[8] x-a\n"), "E311"),
        (format!("{head}input @a : f32[8] x-a word\n"), "E311"),
        (format!("{head}input @a : f32[8] note 1\n"), "E311"),
        (format!("{head}input x-a 1 @a : f32[8]\n"), "E311"),
        (format!("{head}result : f32[8] x-a 1\n"), "E311"),
        (format!("{schedule}      host.drain\n").replace("where x-y", "where x x-a 1"), "E311"),
    ] {
        let found = parse(FileId(0), &text).unwrap_err();
        assert_eq!(found.list[0].code, code, "{text}: {:#?}", found.list);
    }
}
