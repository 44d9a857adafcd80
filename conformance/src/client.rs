//! Sends encoded messages to one server and collects the responses: UDP with a bounded window and retries,
//! TCP with pipelining. Does not interpret the messages.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Maximum number of unanswered messages to one server.
const WINDOW: usize = 64;
/// How often a datagram is sent before giving up.
pub(crate) const TRIES: u32 = 4;
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
    udp_some(server, messages, &all, &mut answers, patience, TRIES)?;
    Ok(answers)
}

fn connected(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    Ok(socket)
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
    let socket = connected(server)?;
    let mut todo: VecDeque<(usize, u32)> = indices.iter().map(|&i| (i, 0)).collect();
    let mut flying: VecDeque<(usize, u32, Instant)> = VecDeque::new();
    let mut buffer = vec![0; 65_536];
    loop {
        while flying.len() < WINDOW {
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
                if let Some(at) = flying.iter().position(|f| f.0 == id) {
                    flying.remove(at);
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
    for burst in indices.chunks(WINDOW) {
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
        out.extend_from_slice(&(messages[i].len() as u16).to_be_bytes());
        out.extend_from_slice(&messages[i]);
    }
    stream.write_all(&out)?;
    for _ in group {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut answer)?;
        if answer.len() >= 2 {
            let id = usize::from(u16::from_be_bytes([answer[0], answer[1]]));
            if group.contains(&id) {
                answers[id] = Some(answer);
            }
        }
    }
    Ok(())
}
