//! Tests of the backend for processes of one computer.

mod c;
mod expected;
mod kernels;
mod orders;
