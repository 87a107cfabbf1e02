//! The backend for processes of one computer: kernels as portable C.
//!
//! A rank is a process, its window a part of shared memory, and a put a store into the peer's
//! window. The C needs a compiler for C11 with atomics, POSIX, and nothing else.
//!
//! * [`backend`]: the backend and its only target, `host`.
//! * `device`: what the printed loops compute.
//! * [`in_place`]: inputs that are read in place, and results that are written in place.
//! * [`fetch_in_place`]: data that peers fetch from where it lies.
//! * [`passes`]: offsets in the window, and addresses of tiles.
//! * [`orders`]: memory orders of notifies and waits, which take the place of the fences.
//! * `refused`: what the target does not emit.
//! * [`c`]: a kernel as C. It decides nothing.
//! * [`expected`]: the values of the results of collectives, from the definition of the program.
//! * [`definition`]: the definition of a program that computes, as C on whole tensors.
//! * [`package`]: the folder: kernel, transport, program, Makefile, README.

pub mod backend;
pub mod c;
pub mod definition;
mod device;
pub mod expected;
pub mod fetch_in_place;
pub mod in_place;
pub mod orders;
pub mod package;
pub mod passes;
mod refused;

pub use backend::{HOST, Host};
pub use device::Processor;
