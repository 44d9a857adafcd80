//! `nomen serve --take-over`: receives the listening sockets of the running server, and waits until it has
//! ended. Queries wait in the sockets meanwhile, so that an upgrade loses none.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use control::hand_over::{self, ReceiveFault};
use control::protocol::{self, ControlCommand};
use control::socket::default_paths;
use wording::reason;

/// Longest wait for the running server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the running server's end. It first writes acknowledged updates and answers received
/// queries.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// Why the sockets of the running server are not taken over.
#[derive(Debug)]
pub(super) enum TakeOverFault {
    /// The connection to the server fails, or its process cannot be observed.
    Io(io::Error),
    /// The server does not hand its sockets over.
    Refused(ReceiveFault),
    /// The server has handed its sockets over, and does not end.
    StillRuns {
        /// Its process.
        server: Pid,
        /// Why it is not waited for any longer.
        why: WaitFault,
    },
}

/// Why the end of a process is not waited for any longer.
#[derive(Debug)]
pub(super) enum WaitFault {
    /// The wait took too long.
    Timeout,
    /// The process cannot be observed.
    Io(io::Error),
}

impl fmt::Display for TakeOverFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = "cannot take over from the server that runs";
        match self {
            Self::Io(error) => write!(f, "{refused}: {}", reason(error)),
            Self::Refused(fault) => write!(f, "{refused}: {fault}"),
            Self::StillRuns { server, why } => write!(
                f,
                "the server that handed its sockets over, process {server}, does not end: {why}; stop it, \
                and start again"
            ),
        }
    }
}

impl fmt::Display for WaitFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => write!(f, "waited {} s", END_TIMEOUT.as_secs()),
            Self::Io(error) => f.write_str(&reason(error)),
        }
    }
}

/// Receives the sockets of the server whose control socket is at `path`, or at the first default path; `None`
/// if no server runs.
///
/// # Errors
/// [`TakeOverFault`]: the server refuses, or does not end.
pub(super) fn take_over(path: Option<&Path>) -> Result<Option<Vec<OwnedFd>>, TakeOverFault> {
    let paths = path.map_or_else(default_paths, |path| vec![path.to_owned()]);
    let Some(mut stream) = paths.iter().find_map(|path| UnixStream::connect(path).ok()) else {
        return Ok(None);
    };
    let io = TakeOverFault::Io;
    // Before the hand-over: an ended process has no process ID.
    let server: Pid = socket_peercred(&stream).map_err(|e| io(e.into()))?.pid;
    let server_end = pidfd_open(server, PidfdFlags::empty()).map_err(|e| io(e.into()))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(io)?;
    let command = protocol::line(&ControlCommand::HandOver).map_err(|e| io(e.into()))?;
    stream.write_all(&command).map_err(io)?;
    let sockets = hand_over::receive(&mut stream).map_err(TakeOverFault::Refused)?;
    wait(&server_end).map_err(|why| TakeOverFault::StillRuns { server, why })?;
    Ok(Some(sockets))
}

/// Waits until a process has ended.
fn wait(process: &OwnedFd) -> Result<(), WaitFault> {
    let until = Instant::now() + END_TIMEOUT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(WaitFault::Timeout);
        }
        let timeout = Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(1), tv_nsec: 999_000_000 };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(WaitFault::Io(e.into())),
        }
    }
}
