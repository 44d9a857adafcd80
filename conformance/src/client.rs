//! Sends encoded messages to one server and collects the responses: UDP with a bounded window and retries,
//! TCP with pipelining. Does not interpret the messages.

use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Maximum number of unanswered messages to one server.
const MAX_UNANSWERED: usize = 64;
/// How often a datagram is sent before giving up.
pub(crate) const MAX_SENDS: u32 = 4;
/// Number of messages written to a connection before their answers are read.
pub(crate) const PIPELINE: usize = 24;

/// Sends each message by UDP and returns its answer, or `None` if there is none. The ID of message `i` is
/// `i`.
pub(crate) fn udp(
    server: SocketAddr,
    messages: &[Vec<u8>],
    patience: Duration,
) -> std::io::Result<Vec<Option<Vec<u8>>>> {
    let mut answers = vec![None; messages.len()];
    let all: Vec<_> = (0..messages.len()).collect();
    udp_some(server, messages, &all, &mut answers, patience, MAX_SENDS)?;
    Ok(answers)
}

fn connected(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    connected_from(any, server)
}

fn connected_from(source: IpAddr, server: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((source, 0))?;
    socket.connect(server)?;
    Ok(socket)
}

/// Like [`udp_some`] with all messages, from this address.
pub(crate) fn udp_from(
    source: IpAddr,
    server: SocketAddr,
    messages: &[Vec<u8>],
    patience: Duration,
    tries_allowed: u32,
) -> std::io::Result<Vec<Option<Vec<u8>>>> {
    let mut answers = vec![None; messages.len()];
    let all: Vec<_> = (0..messages.len()).collect();
    let socket = connected_from(source, server)?;
    exchange(&socket, messages, &all, &mut answers, patience, tries_allowed)?;
    Ok(answers)
}

/// Sends a message by TCP from this address, and returns its answer, or `None` if there is none.
pub(crate) fn tcp_from(
    source: IpAddr,
    server: SocketAddr,
    message: &[u8],
    patience: Duration,
) -> std::io::Result<Option<Vec<u8>>> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect_timeout(&server.into(), Duration::from_secs(3))?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(&framed(message))?;
    match read_message(&mut stream) {
        Ok(answer) => Ok(Some(answer)),
        Err(_) => Ok(None),
    }
}

/// Like [`udp`], with the messages at `indices` only, each sent at most `tries` times; stores the answers in
/// `answers`.
pub(crate) fn udp_some(
    server: SocketAddr,
    messages: &[Vec<u8>],
    indices: &[usize],
    answers: &mut [Option<Vec<u8>>],
    patience: Duration,
    tries_allowed: u32,
) -> std::io::Result<()> {
    exchange(&connected(server)?, messages, indices, answers, patience, tries_allowed)
}

fn exchange(
    socket: &UdpSocket,
    messages: &[Vec<u8>],
    indices: &[usize],
    answers: &mut [Option<Vec<u8>>],
    patience: Duration,
    tries_allowed: u32,
) -> std::io::Result<()> {
    let mut todo: VecDeque<(usize, u32)> = indices.iter().map(|&i| (i, 0)).collect();
    let mut flying: VecDeque<(usize, u32, Instant)> = VecDeque::new();
    let mut buffer = vec![0; 65_536];
    loop {
        while flying.len() < MAX_UNANSWERED {
            let Some((i, tries)) = todo.pop_front() else { break };
            if let Err(error) = socket.send(&messages[i])
                && !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
            {
                return Err(error);
            }
            flying.push_back((i, tries + 1, Instant::now()));
        }
        let Some(&(_, _, sent)) = flying.front() else { return Ok(()) };
        let wait = patience.saturating_sub(sent.elapsed()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv(&mut buffer) {
            Ok(len) if len >= 2 => {
                let id = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
                let waits = if let Some(at) = flying.iter().position(|f| f.0 == id) {
                    flying.remove(at).is_some()
                } else if let Some(at) = todo.iter().position(|t| t.0 == id && t.1 > 0) {
                    // It may be long until this message has its next turn, and a server that takes a little
                    // more than `patience` each time would then be taken for one that never answers.
                    todo.remove(at).is_some()
                } else {
                    false
                };
                if waits {
                    answers[id] = Some(buffer[..len].to_vec());
                }
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
        while let Some(&(i, tries, sent)) = flying.front() {
            if sent.elapsed() < patience {
                break;
            }
            flying.pop_front();
            if tries < tries_allowed {
                todo.push_back((i, tries));
            }
        }
    }
}

/// Sends the messages at `indices` in bursts while `pause` stops the server, so that it finds each burst
/// whole; stores the answers in `answers`. Sends nothing twice.
pub(crate) fn bursts(
    server: SocketAddr,
    messages: &[Vec<u8>],
    indices: &[usize],
    answers: &mut [Option<Vec<u8>>],
    patience: Duration,
    pause: impl Fn(bool) -> Result<(), String>,
) -> Result<(), String> {
    let failed = |e: std::io::Error| e.to_string();
    let socket = connected(server).map_err(failed)?;
    let mut buffer = vec![0; 65_536];
    for burst in indices.chunks(MAX_UNANSWERED) {
        pause(true)?;
        let sent = burst.iter().try_for_each(|&i| socket.send(&messages[i]).map(drop));
        pause(false)?;
        sent.map_err(failed)?;
        let end = Instant::now() + patience;
        while burst.iter().any(|&i| answers[i].is_none()) && Instant::now() < end {
            let wait = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            socket.set_read_timeout(Some(wait)).map_err(failed)?;
            match socket.recv(&mut buffer) {
                Ok(len) if len >= 2 => {
                    let id = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
                    if let Some(answer) = answers.get_mut(id) {
                        *answer = Some(buffer[..len].to_vec());
                    }
                }
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
    Ok(())
}

/// Sends each message by TCP, `together` to a connection, and returns its answer, or `None` if the server
/// closed the connection or did not answer. The ID of message `i` is `i`.
pub(crate) fn tcp(
    server: SocketAddr,
    messages: &[Vec<u8>],
    patience: Duration,
    together: usize,
) -> std::io::Result<Vec<Option<Vec<u8>>>> {
    let mut answers: Vec<Option<Vec<u8>>> = vec![None; messages.len()];
    let together = together.max(1);
    for start in (0..messages.len()).step_by(together) {
        let group: Vec<usize> = (start..messages.len().min(start + together)).collect();
        let _ = pipeline(server, messages, &group, &mut answers, patience);
        for i in group {
            // A message lost with a shared connection is repeated on its own connection. Silence is confirmed
            // by a second try: a busy machine may just be slow.
            if answers[i].is_none() {
                let _ = pipeline(server, messages, &[i], &mut answers, patience);
            }
        }
    }
    Ok(answers)
}

fn pipeline(
    server: SocketAddr,
    messages: &[Vec<u8>],
    group: &[usize],
    answers: &mut [Option<Vec<u8>>],
    patience: Duration,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(3))?;
    stream.set_read_timeout(Some(patience.max(Duration::from_millis(800))))?;
    stream.set_write_timeout(Some(Duration::from_secs(3)))?;
    stream.set_nodelay(true)?;
    let mut out = Vec::new();
    for &i in group {
        out.extend_from_slice(&framed(&messages[i]));
    }
    stream.write_all(&out)?;
    for _ in group {
        let answer = read_message(&mut stream)?;
        if answer.len() >= 2 {
            let id = usize::from(u16::from_be_bytes([answer[0], answer[1]]));
            if group.contains(&id) {
                answers[id] = Some(answer);
            }
        }
    }
    Ok(())
}

/// Returns a message with its length before it (RFC 1035 §4.2.2).
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Reads the next message of a stream, without its length.
pub(crate) fn read_message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A server that answers message 0 alone, and that once, so long after it came.
    fn slow_server(
        delay: Duration,
        until: Duration,
    ) -> (SocketAddr, std::thread::JoinHandle<BTreeMap<u16, u32>>) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let thread = std::thread::spawn(move || {
            let (start, mut due, mut came) = (Instant::now(), None, BTreeMap::new());
            let mut buffer = [0; 512];
            while start.elapsed() < until {
                if let Ok((_, from)) = socket.recv_from(&mut buffer) {
                    let id = u16::from_be_bytes([buffer[0], buffer[1]]);
                    let times: &mut u32 = came.entry(id).or_default();
                    *times += 1;
                    if (id, *times) == (0, 1) {
                        due = Some((Instant::now() + delay, from));
                    }
                }
                if let Some((_, to)) = due.take_if(|(at, _)| *at <= Instant::now()) {
                    socket.send_to(&[0, 0, 7], to).unwrap();
                }
            }
            came
        });
        (address, thread)
    }

    #[test]
    fn a_reply_counts_that_comes_while_its_message_waits_to_be_sent_again() {
        // All of the first window are without answer, so those of the second have their turn before message 0
        // has its second, and the reply comes then.
        let messages: Vec<Vec<u8>> =
            (0..2 * MAX_UNANSWERED as u16).map(|id| id.to_be_bytes().to_vec()).collect();
        let all: Vec<usize> = (0..messages.len()).collect();
        let patience = Duration::from_millis(300);
        let (server, thread) = slow_server(patience * 3 / 2, patience * 5);
        let mut answers = vec![None; messages.len()];
        udp_some(server, &messages, &all, &mut answers, patience, 2).unwrap();
        assert_eq!(answers[0].as_deref(), Some(&[0, 0, 7][..]));
        assert_eq!(answers.iter().flatten().count(), 1);
        let came = thread.join().unwrap();
        assert_eq!((came[&0], came[&1]), (1, 2), "with its answer there is nothing to send again");
    }
}
