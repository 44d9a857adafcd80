//! The AF_XDP front of datagram listeners: queries are taken from the receive queues of a network card before
//! the kernel's stack sees them, and replies are passed to the card below it.
//!
//! `front` opens it. `program` chooses the frames, `bpf` attaches it and `attachment` takes it off. `ring`
//! and `socket` move frames, `frame` takes them apart and puts them together, `queue` is the back end of a
//! worker, `interface` knows the card. All that the program does not take goes on to the listeners' own
//! sockets: a front only ever saves work, and changes no answer.

mod attachment;
mod bpf;
mod config;
mod frame;
mod front;
mod interface;
mod program;
mod queue;
mod ring;
mod socket;

pub use config::{XdpAttach, XdpConfig, XdpCopy, XdpMode};
pub(crate) use front::{Front, spawn};
