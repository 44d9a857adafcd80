//! The destination of frames: a file, or a collector on a Unix socket.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dnstap::{ControlFrame, ControlKind, FrameFault, append_control, first_frame, resume};

use wording::reason;

/// Interval between attempts to connect to the collector: the first, and the longest.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Longest wait for a collector's answer, and for a write to it.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Why frames cannot be written.
#[derive(Debug)]
pub enum SinkFault {
    /// The file cannot be opened.
    Open(PathBuf, io::Error),
    /// The file has other contents.
    Foreign(PathBuf, FrameFault),
    /// It is not a regular file, so it cannot be truncated or positioned.
    Special(PathBuf),
    /// The collector cannot be reached, or breaks the protocol.
    Collector(FrameFault),
    /// Frames are being written, and that takes too long.
    Busy,
    /// The system refuses a thread.
    Thread(io::Error),
    /// The system returned no random numbers.
    Random(getrandom::Error),
}

impl fmt::Display for SinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(path, e) => write!(f, "cannot open the dnstap file {}: {}", path.display(), reason(e)),
            Self::Foreign(path, fault) => {
                write!(f, "{} is no dnstap file, and is left alone: {fault}", path.display())
            }
            Self::Special(path) => write!(f, "{} is no ordinary file; dnstap needs one", path.display()),
            Self::Collector(FrameFault::Io(e)) => f.write_str(&reason(e)),
            Self::Collector(fault) => fault.fmt(f),
            Self::Busy => f.write_str("dnstap frames are being written, and that takes too long"),
            Self::Thread(e) => write!(f, "cannot start the thread that writes dnstap frames: {e}"),
            Self::Random(fault) => write!(f, "there are no random numbers: {fault}"),
        }
    }
}

impl std::error::Error for SinkFault {}

/// The destination of frames.
pub(super) struct Sink {
    path: PathBuf,
    to: To,
}

enum To {
    File(File),
    Socket {
        stream: Option<UnixStream>,
        pause: Duration,
        next: Instant,
    },
    /// Closed.
    Ended,
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Sink {
    /// Opens the file, creates it if missing, and continues after the frames in it.
    pub(super) fn file(path: &Path) -> Result<Self, SinkFault> {
        Ok(Sink { path: path.to_owned(), to: To::File(open(path)?) })
    }

    /// Returns the sink for the collector on this socket, not connected yet.
    pub(super) fn socket(path: &Path) -> Self {
        let to = To::Socket { stream: None, pause: RECONNECT_PAUSES.0, next: Instant::now() };
        Sink { path: path.to_owned(), to }
    }

    /// Returns whether frames can be written.
    pub(super) fn is_open(&self) -> bool {
        match &self.to {
            To::File(_) => true,
            To::Socket { stream, .. } => stream.is_some(),
            To::Ended => false,
        }
    }

    /// Connects to the collector; `None` if it is not yet time to.
    pub(super) fn connect(&mut self, now: Instant) -> Option<Result<(), SinkFault>> {
        let To::Socket { stream, pause, next } = &mut self.to else { return None };
        if now < *next {
            return None;
        }
        Some(match shake_hands(&self.path) {
            Ok(connected) => {
                *stream = Some(connected);
                *pause = RECONNECT_PAUSES.0;
                Ok(())
            }
            Err(fault) => {
                *next = now + *pause;
                *pause = (*pause * 2).min(RECONNECT_PAUSES.1);
                Err(SinkFault::Collector(fault))
            }
        })
    }

    /// Writes whole frames and removes what was written. After an error on a socket, removes a partly written
    /// frame and keeps those not begun, for the next connection; after an error on a file, drops all.
    pub(super) fn write(&mut self, frames: &mut Vec<u8>) -> Result<(), SinkFault> {
        let mut written = 0;
        let outcome = match &mut self.to {
            To::File(file) => write_all(file, frames, &mut written),
            To::Socket { stream: Some(stream), .. } => write_all(stream, frames, &mut written),
            To::Socket { stream: None, .. } | To::Ended => Err(io::ErrorKind::NotConnected.into()),
        };
        let Err(e) = outcome else {
            frames.clear();
            return Ok(());
        };
        match &mut self.to {
            To::Socket { stream, next, .. } => {
                (*stream, *next) = (None, Instant::now());
                frames.drain(..whole(frames, written));
            }
            To::File(file) => {
                // A partly written frame on a full disk would make all following frames unreadable.
                if let Ok(end) = file.stream_position()
                    && let to = end.saturating_sub(written as u64)
                    && file.set_len(to).is_ok()
                {
                    let _ = file.seek(SeekFrom::Start(to));
                }
                frames.clear();
            }
            To::Ended => frames.clear(),
        }
        Err(SinkFault::Collector(FrameFault::Io(e)))
    }

    /// Reopens the file, after ending the old one.
    pub(super) fn reopen(&mut self) -> Result<(), SinkFault> {
        let To::File(file) = &mut self.to else { return Ok(()) };
        // If the file was not moved, it is continued, so it has to be ended first.
        let ended = end(file);
        let opened = open(&self.path);
        if opened.is_err() && ended.is_ok() {
            // The next frame overwrites STOP.
            let _ = file.seek(SeekFrom::Current(-(stop().len() as i64)));
        }
        *file = opened?;
        Ok(())
    }

    /// Ends the stream: nothing can be written afterwards.
    pub(super) fn finish(&mut self, patience: Duration) -> Result<(), SinkFault> {
        let ended = match std::mem::replace(&mut self.to, To::Ended) {
            To::File(mut file) => end(&mut file).map_err(FrameFault::Io),
            To::Socket { stream: Some(mut stream), .. } => part(&mut stream, patience),
            To::Socket { stream: None, .. } | To::Ended => Ok(()),
        };
        ended.map_err(SinkFault::Collector)
    }
}

/// Writes all bytes; `written` is the number written, also after an error.
fn write_all(to: &mut impl Write, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < bytes.len() {
        match to.write(&bytes[*written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => *written += len,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Returns the length of all frames that `written` bytes reach into, including a partly written one.
fn whole(frames: &[u8], written: usize) -> usize {
    let mut end = 0;
    while end < written {
        match first_frame(&frames[end..]) {
            Some(len) => end += len,
            None => return frames.len(),
        }
    }
    end
}

fn stop() -> Vec<u8> {
    let mut stop = Vec::new();
    append_control(ControlKind::Stop, &mut stop);
    stop
}

/// Opens a file positioned after its last whole frame. Truncates what follows: STOP, or a partly written
/// frame.
fn open(path: &Path) -> Result<File, SinkFault> {
    let fault = |e| SinkFault::Open(path.to_owned(), e);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = opened.map_err(fault)?;
    if !file.metadata().map_err(fault)?.is_file() {
        return Err(SinkFault::Special(path.to_owned()));
    }
    let end = resume(&mut BufReader::new(&mut file)).map_err(|e| match e {
        FrameFault::Io(e) if e.kind() != io::ErrorKind::UnexpectedEof => fault(e),
        other => SinkFault::Foreign(path.to_owned(), other),
    })?;
    let begin = |file: &mut File| {
        file.seek(SeekFrom::Start(end))?;
        file.set_len(end)?;
        let mut start = Vec::new();
        if end == 0 {
            append_control(ControlKind::Start, &mut start);
        }
        file.write_all(&start)
    };
    begin(&mut file).map_err(fault)?;
    Ok(file)
}

/// Writes STOP to a file.
fn end(file: &mut File) -> io::Result<()> {
    file.write_all(&stop())
}

/// Connects to a collector and performs the handshake: READY, ACCEPT, START.
fn shake_hands(path: &Path) -> Result<UnixStream, FrameFault> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(COLLECTOR_TIMEOUT))?;
    stream.set_write_timeout(Some(COLLECTOR_TIMEOUT))?;
    let mut say = Vec::new();
    append_control(ControlKind::Ready, &mut say);
    stream.write_all(&say)?;
    ControlFrame::read(&mut stream)?.expect(ControlKind::Accept)?;
    say.clear();
    append_control(ControlKind::Start, &mut say);
    stream.write_all(&say)?;
    Ok(stream)
}

/// Ends the connection to a collector: STOP, FINISH.
fn part(stream: &mut UnixStream, patience: Duration) -> Result<(), FrameFault> {
    // A timeout of zero is not allowed.
    let patience = Some(patience.max(Duration::from_millis(1)));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    stream.write_all(&stop())?;
    ControlFrame::read(stream)?.expect(ControlKind::Finish)
}
