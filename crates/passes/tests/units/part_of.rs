//! The parts of a permutation as an expression.

use kbc_passes::testing::part_of;
use kbc_rounds::Library;
use kbc_rounds::eval::{ListScope, Value, eval};

#[test]
fn the_expression_says_what_the_list_says() {
    let mut seed = 7u64;
    let mut lists: Vec<Vec<u64>> = vec![vec![0], vec![2, 0, 1], vec![1, 0, 3, 2], vec![0, 0, 2, 3, 3]];
    for p in 1..20u64 {
        let list = (0..p).map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % p
        });
        lists.push(list.collect());
    }
    for list in lists {
        let e = part_of(&list);
        for (r, q) in list.iter().enumerate() {
            let scope = ListScope(vec![("r".into(), Value::Int(r as i64))]);
            let v = eval(&e, &scope, &Library::new()).unwrap();
            assert_eq!(v, Value::Int(*q as i64), "{list:?} at {r}");
        }
    }
}
