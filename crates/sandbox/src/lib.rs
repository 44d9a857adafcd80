//! The sandbox: it limits what the process may do once its sockets are open and its configuration is read. An
//! attacker that executes code in a thread through a flaw has the same limits.
//!
//! | module | what it takes away |
//! |---|---|
//! | [`capabilities`] | capabilities, new privileges, and that other processes read the memory |
//! | `files` | files, TCP ports and other processes, by Landlock |
//! | `calls` | system calls, by seccomp, for the whole process |
//! | [`kinds`] | further system calls, by the kind of a thread |
//!
//! [`enter`] applies everything to the calling thread and to all threads that start after it, so it is called
//! before the first thread starts. A kernel may lack a part: the others apply all the same, and [`Sandbox`]
//! has what is missing. Nothing of it can be undone.
#![forbid(unsafe_code)]

mod calls;
pub mod capabilities;
mod files;
pub mod kinds;
mod state;

pub use capabilities::PrivilegeFault;
pub use files::SandboxGrants;
pub use state::{FileRules, Sandbox, SandboxFault, current, enter, is_outside};
