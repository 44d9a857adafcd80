//! Listening sockets on the control connection: `give` sends them to the server that takes over, `receive`
//! runs in that server.
//!
//! The answer to the command has the usual form and states the number of sockets; the descriptors follow, at
//! most 64 with each byte.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::OwnedWriteHalf;

use crate::fault::CommandFault;
use crate::protocol::{self, AnswerLine, True};
use serving::frontend::Frontend;
use wording::reason;

/// Descriptors per message; the kernel allows 253.
const MAX_DESCRIPTORS: usize = 64;
/// Space for the descriptors of one message, in bytes.
const DESCRIPTOR_SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));
/// Longest wait for the other end to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer line that is read, in bytes.
const MAX_LINE: usize = 4096;

/// Why the listening sockets of the running server are not received.
#[derive(Debug)]
pub enum ReceiveFault {
    /// The connection failed.
    Io(io::Error),
    /// The server refuses, for this reason.
    Refused(String),
    /// The answer is not one of nomen.
    Foreign,
    /// The connection ended early.
    Short {
        /// The number of sockets that were received.
        received: usize,
        /// The number that the server announced.
        wanted: usize,
    },
}

impl fmt::Display for ReceiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "it does not hand its sockets over: {}", reason(error)),
            Self::Refused(why) => f.write_str(why),
            Self::Foreign => f.write_str("its answer is not one of nomen"),
            Self::Short { received, wanted } => write!(f, "it hands over {received} of {wanted} sockets"),
        }
    }
}

impl std::error::Error for ReceiveFault {}

/// Sends the listening sockets. Returns whether they were sent: if so, the listeners leave unread data in
/// them.
///
/// # Errors
/// The system's error if the client has disconnected.
pub(super) async fn give(frontend: &Frontend, writer: &mut OwnedWriteHalf) -> io::Result<bool> {
    let sockets = match frontend.sockets() {
        Ok(sockets) => sockets,
        Err(e) => {
            write(writer, &CommandFault::HandOver(e).into()).await?;
            return Ok(false);
        }
    };
    write(writer, &AnswerLine::Done { ok: True, data: json!({"sockets": sockets.len()}) }).await?;
    let stream: &tokio::net::UnixStream = writer.as_ref();
    for part in sockets.chunks(MAX_DESCRIPTORS) {
        let sent = stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), part));
        tokio::time::timeout(WRITE_TIMEOUT, sent).await??;
    }
    frontend.leave_unread();
    Ok(true)
}

async fn write(writer: &mut OwnedWriteHalf, line: &AnswerLine) -> io::Result<()> {
    tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&protocol::line(line)?)).await?
}

fn send(stream: BorrowedFd<'_>, sockets: &[OwnedFd]) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); DESCRIPTOR_SPACE];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(b".")], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Reads the answer to [`crate::protocol::ControlCommand::HandOver`] and the sockets after it. The stream
/// should have a read timeout.
///
/// # Errors
/// [`ReceiveFault`].
pub fn receive(stream: &mut StdStream) -> Result<Vec<OwnedFd>, ReceiveFault> {
    let wanted = match serde_json::from_slice(&read_line(stream).map_err(ReceiveFault::Io)?) {
        Ok(AnswerLine::Done { data, .. }) => data.get("sockets").and_then(Value::as_u64).unwrap_or(0),
        Ok(AnswerLine::Fault { error, .. }) => return Err(ReceiveFault::Refused(error)),
        Ok(AnswerLine::Text { .. }) | Err(_) => return Err(ReceiveFault::Foreign),
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let mut sockets = Vec::new();
    while sockets.len() < wanted {
        let mut space = [MaybeUninit::uninit(); DESCRIPTOR_SPACE];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = recvmsg(&*stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags);
        let before = sockets.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                sockets.extend(descriptors);
            }
        }
        if read.map_err(|e| ReceiveFault::Io(e.into()))?.bytes == 0 || sockets.len() == before {
            return Err(ReceiveFault::Short { received: sockets.len(), wanted });
        }
    }
    Ok(sockets)
}

/// Reads one line, byte by byte: a descriptor is lost if the byte it is attached to is read by another call.
fn read_line(stream: &mut StdStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < MAX_LINE {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(line);
        }
        line.extend(byte);
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn more_sockets_than_a_message_holds_arrive_and_work() {
        let (mut ours, theirs) = StdStream::pair().expect("a pair");
        let client = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = client.local_addr().expect("bound");
        let sockets: Vec<OwnedFd> =
            (0..MAX_DESCRIPTORS + 1).map(|_| UdpSocket::bind("127.0.0.1:0").expect("bound").into()).collect();
        (&theirs).write_all(b"{\"ok\":true,\"data\":{\"sockets\":65}}\n").expect("written");
        sockets.chunks(MAX_DESCRIPTORS).for_each(|part| send(theirs.as_fd(), part).expect("sent"));
        drop(sockets);
        let taken = receive(&mut ours).expect("taken");
        assert_eq!(taken.len(), MAX_DESCRIPTORS + 1);
        for socket in taken {
            UdpSocket::from(socket).send_to(b"x", address).expect("sent");
            assert_eq!(client.recv(&mut [0; 8]).expect("received"), 1);
        }
    }

    #[test]
    fn a_refusal_and_an_end_in_between_are_faults() {
        let fault = |answer: &[u8]| {
            let (mut ours, theirs) = StdStream::pair().expect("a pair");
            (&theirs).write_all(answer).expect("written");
            drop(theirs);
            receive(&mut ours).expect_err("a fault")
        };
        let refusal = fault(b"{\"ok\":false,\"error\":\"no\"}\n");
        assert!(matches!(&refusal, ReceiveFault::Refused(why) if why == "no"), "{refusal:?}");
        let short = fault(b"{\"ok\":true,\"data\":{\"sockets\":2}}\n");
        assert!(matches!(short, ReceiveFault::Short { received: 0, wanted: 2 }), "{short:?}");
        let foreign = fault(b"nonsense\n");
        assert!(matches!(foreign, ReceiveFault::Foreign), "{foreign:?}");
        let end = fault(b"");
        assert!(
            matches!(&end, ReceiveFault::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof),
            "{end:?}"
        );
    }
}
