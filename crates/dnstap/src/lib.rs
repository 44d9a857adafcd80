//! dnstap, by which DNS servers pass copies of the messages that they receive and send to a collector: the
//! messages that describe them (`message`), and Frame Streams, which carries those (`frame`).
//!
//! What lives here: the bytes. What does not: sockets and files, which message is worth a copy, queues (all
//! `telemetry`).
//!
//! The formats are those of <https://dnstap.info> and of the library fstrm, which its collectors
//! read with.
#![forbid(unsafe_code)]

mod frame;
mod message;

pub use frame::{
    CONTENT_TYPE, Control, ControlKind, FrameFault, MAX_CONTROL, MAX_FRAME, append_control, append_frame,
    first_frame, resume,
};
pub use message::{
    DnstapFrame, DnstapKind, DnstapMessage, DnstapSocketFamily, DnstapSocketProtocol, DnstapType,
};
