//! `[control]`: the socket of `nomen ctl`, which `crate::control` serves.

use std::path::PathBuf;

use super::table::keys;

keys! {
    /// The local socket that `nomen ctl` talks to. Only the user nomen runs as, and root, may open it.
    pub struct Control in "[control]" {
        /// Whether there is a control socket.
        restart "enable" enable: bool = true, example true;
        /// Path of the Unix socket. Unset: `/run/nomen/ctl.sock` for root or where that folder is writable,
        /// else `nomen/ctl.sock` in `$XDG_RUNTIME_DIR`, else a folder of one's own in the temporary directory.
        restart "socket" socket: Option<PathBuf> = None, example "/run/nomen/ctl.sock";
    }
}
