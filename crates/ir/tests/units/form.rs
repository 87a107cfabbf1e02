//! Forms of counters.

use kbc_ir::form::Form;

/// The notifies used up and the next target, in each form.
#[test]
fn forms_count_as_they_say() {
    let (sense, clearing) = (Form::Sense { fresh: true }, Form::Clearing { fresh: true });
    assert_eq!((Form::Epoch.target(7, 3), Form::Epoch.target(0, -2)), (3, 0));
    assert_eq!(
        (sense.target(0, 0), sense.target(0, 1), sense.target(1, 1), sense.target(1, 0)),
        (0, 1, 1, 2)
    );
    assert_eq!((clearing.target(0, 3), clearing.target(3, 3), clearing.target(3, 0)), (3, 6, 3));
    assert!(sense.passes(3, 0, 1) && !sense.passes(2, 0, 1), "the bit alone");
    assert!(clearing.passes(7, 3, 3) && !clearing.passes(5, 3, 3));
    assert_eq!((sense.spends(3, 0, 1), clearing.spends(7, 3, 3)), (3, 6));
    assert_eq!(format!("{}{sense}{}", Form::Epoch, Form::Clearing { fresh: false }), " sense fresh clearing");
}
