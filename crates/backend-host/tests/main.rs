//! Tests of the backend for processes of one computer.

mod c;
mod kernels;
mod orders;
