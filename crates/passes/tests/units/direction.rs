//! The direction of a message, by the text of its peer.

use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_passes::testing::Direction;

#[test]
fn windows_by_the_text_of_the_peer() {
    let (x, y): (Name, Name) = ("x".into(), "y".into());
    let coords = [(x.clone(), 2), (y.clone(), 3)];
    let var = |n: &Name| Expr::Var(n.clone());
    let at = |a, b| Direction::of(&vec![a, b].into(), &coords);
    assert_eq!(at((var(&x) + Expr::Int(1)).modulo(2), var(&y)), Direction::Minus(x.clone()));
    assert_eq!(at((var(&x) - Expr::Int(1)).modulo(2), var(&y)), Direction::Plus(x.clone()));
    assert_eq!(at(var(&x), (var(&y) + Expr::Int(2)).modulo(3)), Direction::Plus(y.clone()));
    assert_eq!(at(var(&x), var(&y) + Expr::Int(1)), Direction::Minus(y.clone()));
    assert_eq!(at(var(&x), var(&y) - Expr::Int(1)), Direction::Plus(y.clone()));
    let both = at((var(&x) + Expr::Int(1)).modulo(2), var(&y) - Expr::Int(1));
    assert_eq!(both, Direction::Peer);
    assert_eq!(at(var(&x), Expr::Int(0)), Direction::Peer);
    assert_eq!(at(var(&y), var(&x)), Direction::Peer);
}
