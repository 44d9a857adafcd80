//! The AF_XDP front of datagram listeners: it takes queries from the receive queues of a network card before
//! the kernel's network stack, and passes replies to the card below it.
//!
//! `listener` opens it. `program` selects the frames, `bpf` attaches it and `attachment` detaches it. `ring`
//! and `socket` move frames, `frame` parses and builds them, `queue` is the back end of a worker, `interface`
//! reads the card's properties. All frames that the program does not take go to the listeners' own sockets: a
//! front saves work, and changes no answer.

mod attachment;
mod bpf;
mod config;
mod frame;
mod interface;
mod listener;
mod program;
mod queue;
mod ring;
mod socket;

pub use config::{XdpAttach, XdpConfig, XdpCopy, XdpMode};
pub(crate) use listener::{XdpListener, spawn};
