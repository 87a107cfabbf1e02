//! Tests that declarations as loaded have no values of parameters, so that no reader can use a
//! default by mistake.

use crate::common::Disk;
use kbc_diag::Span;
use kbc_frontend::load::load;
use kbc_frontend::lower;
use kbc_rounds::scope::Functions;

#[test]
fn declarations_as_loaded_have_no_values_of_parameters() {
    let mut disk = Disk::default();
    let text = "param n = 4\nfn twice(x) = n * x\n";
    let root = disk.map.add("values.kb", text);
    let (loaded, found) = load(Some((root, text.to_owned())), &mut disk);
    assert!(!found.has_errors(), "{found:?}");
    let at = Span::new(root, 0, 0);
    let value = |library: &kbc_rounds::Library| library.parameter("n", at).map(|v| v.map_err(|d| d.code));
    assert_eq!(value(&loaded.library), Some(Err("E991")));
    let given = |defines: &[(String, String)]| value(&lower::library(&loaded, defines).expect("a library"));
    assert_eq!(given(&[]), Some(Ok(4)));
    assert_eq!(given(&[("n".to_owned(), "7".to_owned())]), Some(Ok(7)));
    let half = lower::library(&loaded, &[("n".to_owned(), "0.5".to_owned())]);
    assert_eq!(half.map(|_| ()).map_err(|d| d.list[0].code), Err("E421"));
    assert_eq!(loaded.library.parameter("m", at).map(|_| ()), None);
}
