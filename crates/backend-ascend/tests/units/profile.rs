//! Texts of the profiles.

use kbc_backend_ascend::profile::{DIALECT, MASK_SCRATCH, PROFILES, REPEAT};

#[test]
fn notes_state_the_numbers_of_the_profile() {
    for p in &PROFILES {
        assert!(p.limits.ranks_why.contains(&format!("room for {} windows", p.limits.ranks)));
        assert!(DIALECT.step_note.contains(&format!("{REPEAT} bytes")));
        assert!(DIALECT.mask_note.contains(&format!("{MASK_SCRATCH} bytes")));
    }
}
