//! Tensors that are filled.

use kbc_ir::dtype::DType;
use kbc_ir::fill::{Fill, FillContent, has};

#[test]
fn types_have_their_numbers_alone() {
    let place = |dtype, n| Fill { dtype, sizes: vec![2, n], with: FillContent::Place(1) }.fault();
    assert_eq!(
        (place(DType::F16, 2049), place(DType::BF16, 257), place(DType::I8, 128)),
        (Ok(()), Ok(()), Ok(()))
    );
    assert_eq!(
        place(DType::F16, 2050),
        Err("f16 cannot represent every integer up to 2049, only up to 2048".into())
    );
    assert!(place(DType::I8, 129).is_err() && place(DType::U8, 257).is_err());
    assert_eq!(
        (has(DType::U8, 255.0), has(DType::I8, -128.0), has(DType::F16, 0.1)),
        (Ok(()), Ok(()), Ok(()))
    );
    for (d, v) in [(DType::U8, -1.0), (DType::I8, 128.0), (DType::I32, 0.5), (DType::I64, 1e16)] {
        assert_eq!(has(d, v), Err(format!("{d} cannot represent {v}")));
    }
    let missing = Fill { dtype: DType::I32, sizes: vec![], with: FillContent::Place(0) };
    assert_eq!(missing.fault(), Err("dimension 0 does not exist; there are 0".into()));
}
