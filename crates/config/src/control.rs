//! `[control]`: the socket of `nomen ctl`, which `control` of `server` serves.

use std::path::PathBuf;

use super::table::keys;
use super::table::value::{Int, Time};

keys! {
    /// The local socket that `nomen ctl` connects to. Only the user nomen runs as, and root, may open it.
    pub struct ControlSection in "[control]" {
        /// Whether there is a control socket.
        restart "enable" enable: bool = true, example true;
        /// Path of the Unix socket. Unset: `/run/nomen/ctl.sock` for root or where that folder is writable,
        /// else `nomen/ctl.sock` in `$XDG_RUNTIME_DIR`, else a private folder in the temporary directory.
        restart "socket" socket: Option<PathBuf> = None, example "/run/nomen/ctl.sock";
        /// Most connections at a time. One more replaces the connection that has been idle longest; a
        /// connection whose command is running is not idle.
        live "connections" connections: Int<usize, 1, 10_000> = Int(32), example 100;
        /// Longest time that a connection may stay without a command, and that a client may take to read a
        /// reply.
        live "idle-timeout" idle: Time<1_000, 86_400_000> = Time::secs(60), example "5m";
    }
}
