//! Schedules that other programs wrote, as schedules of the IR; and local programs that PyTorch exported.
//!
//! Owns the readers of foreign formats and what they mean. It hands over modules, facts of the file and messages; files,
//! checking, executing and reports are the driver's. Nothing here is believed: the checker proves what is imported as it
//! proves everything else.

pub mod msccl;
pub mod torch;
