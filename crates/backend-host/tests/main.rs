//! Tests of the backend for processes of one computer.

mod c;
mod expected;
mod fetch_in_place;
mod in_place;
mod kernels;
mod orders;
