//! Tests of the backend for processes of one computer.

mod c;
mod expected;
mod in_place;
mod kernels;
mod orders;
