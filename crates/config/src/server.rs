//! `[server]`, whose keys come from several features.

use super::answers::Answers;
use super::privileges::Privileges;
use super::reloading::Reloading;
use super::storage::Storage;
use super::table::section;
use super::tcp::Tcp;
use super::threads::Threads;

section! {
    /// The process as a whole.
    pub struct Server in "[server]" {
        /// Whom to become.
        privileges: Privileges;
        /// What nomen keeps between its runs.
        storage: Storage;
        /// Loading zones, and reloads.
        reloading: Reloading;
        /// The threads that answer.
        threads: Threads;
        /// TCP connections.
        tcp: Tcp;
        /// Answers, and what the server says of itself.
        answers: Answers;
    }
}

impl Server {
    /// What listeners are to do.
    pub fn net_config(&self) -> net::ListenerConfig {
        net::ListenerConfig { tcp: self.tcp.config(), ..self.threads.config() }
    }
}
