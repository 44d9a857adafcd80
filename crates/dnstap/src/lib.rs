//! dnstap, which passes copies of a server's DNS messages to a collector: the Protocol Buffers (`message`),
//! and Frame Streams, which carries them (`frame`).
//!
//! In this crate: the encoding. In `telemetry`: sockets and files, the choice of messages, queues.
//!
//! The formats are those of <https://dnstap.info> and of the library fstrm, which its collectors use.
#![forbid(unsafe_code)]

mod frame;
mod message;

pub use frame::{
    CONTENT_TYPE, ControlFrame, ControlKind, FrameFault, MAX_CONTROL, MAX_FRAME, append_control,
    append_frame, first_frame, resume,
};
pub use message::{
    DnstapFrame, DnstapKind, DnstapMessage, DnstapPolicy, DnstapPolicyAction, DnstapPolicyMatch,
    DnstapSocketFamily, DnstapSocketProtocol, DnstapType,
};
