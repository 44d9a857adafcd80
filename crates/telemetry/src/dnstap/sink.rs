//! Where frames go: a file, or a collector at the other end of a Unix socket.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dnstap::{Control, ControlKind, FrameFault, append_control, first_frame, resume};

use wording::reason;

/// Time until a collector that is away is looked for again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Time that a collector may take to answer, or to take what is written.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Why frames cannot be written.
#[derive(Debug)]
pub enum SinkFault {
    /// The file cannot be opened.
    Open(PathBuf, io::Error),
    /// There is something else in the file.
    Foreign(PathBuf, FrameFault),
    /// It is no ordinary file, so that there is no going back in it.
    Special(PathBuf),
    /// The collector cannot be reached, or does not speak as it should.
    Collector(FrameFault),
    /// They are being written, and that takes too long.
    Busy,
    /// The system refuses a thread.
    Thread(io::Error),
    /// It has no random numbers.
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

/// Where frames go.
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
    /// Nowhere any more.
    Ended,
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Sink {
    /// This file, made if it is missing and gone on with if there are frames in it.
    pub(super) fn file(path: &Path) -> Result<Self, SinkFault> {
        Ok(Sink { path: path.to_owned(), to: To::File(open(path)?) })
    }

    /// The collector that listens on this socket, once it is connected.
    pub(super) fn socket(path: &Path) -> Self {
        let to = To::Socket { stream: None, pause: PAUSES.0, next: Instant::now() };
        Sink { path: path.to_owned(), to }
    }

    /// Whether it can be written to.
    pub(super) fn is_open(&self) -> bool {
        match &self.to {
            To::File(_) => true,
            To::Socket { stream, .. } => stream.is_some(),
            To::Ended => false,
        }
    }

    /// Looks for the collector; none if it is not yet time to.
    pub(super) fn connect(&mut self, now: Instant) -> Option<Result<(), SinkFault>> {
        let To::Socket { stream, pause, next } = &mut self.to else { return None };
        if now < *next {
            return None;
        }
        Some(match shake_hands(&self.path) {
            Ok(connected) => {
                *stream = Some(connected);
                *pause = PAUSES.0;
                Ok(())
            }
            Err(fault) => {
                *next = now + *pause;
                *pause = (*pause * 2).min(PAUSES.1);
                Err(SinkFault::Collector(fault))
            }
        })
    }

    /// Writes whole frames and takes away what was written. After a fault those are left that a next
    /// collector can have: a frame that was cut is taken away, too.
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
                // Frames that are on a full disk in part would make all that follow unreadable.
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

    /// Opens the file anew; the old one is ended.
    pub(super) fn reopen(&mut self) -> Result<(), SinkFault> {
        let To::File(file) = &mut self.to else { return Ok(()) };
        // If the file was not moved, it is continued: it has to be ended first.
        let ended = end(file);
        let opened = open(&self.path);
        if opened.is_err() && ended.is_ok() {
            // The next frame goes where STOP is.
            let _ = file.seek(SeekFrom::Current(-(stop().len() as i64)));
        }
        *file = opened?;
        Ok(())
    }

    /// Ends the stream: nothing can be written any more.
    pub(super) fn finish(&mut self, patience: Duration) -> Result<(), SinkFault> {
        let ended = match std::mem::replace(&mut self.to, To::Ended) {
            To::File(mut file) => end(&mut file).map_err(FrameFault::Io),
            To::Socket { stream: Some(mut stream), .. } => part(&mut stream, patience),
            To::Socket { stream: None, .. } | To::Ended => Ok(()),
        };
        ended.map_err(SinkFault::Collector)
    }
}

/// As `write_all`, and `written` is what is written also after a fault.
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

/// Bytes of the frames of which the first `written` bytes were written, the one that was cut included.
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

/// Opens a file at the place where further frames go. What is behind that is taken away: STOP, or a frame
/// that was cut.
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

/// Ends a file.
fn end(file: &mut File) -> io::Result<()> {
    file.write_all(&stop())
}

/// Connects to a collector: READY, ACCEPT, START.
fn shake_hands(path: &Path) -> Result<UnixStream, FrameFault> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(COLLECTOR_TIMEOUT))?;
    stream.set_write_timeout(Some(COLLECTOR_TIMEOUT))?;
    let mut say = Vec::new();
    append_control(ControlKind::Ready, &mut say);
    stream.write_all(&say)?;
    Control::read(&mut stream)?.expect(ControlKind::Accept)?;
    say.clear();
    append_control(ControlKind::Start, &mut say);
    stream.write_all(&say)?;
    Ok(stream)
}

/// Takes leave of a collector: STOP, FINISH.
fn part(stream: &mut UnixStream, patience: Duration) -> Result<(), FrameFault> {
    // A time of zero would mean any.
    let patience = Some(patience.max(Duration::from_millis(1)));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    stream.write_all(&stop())?;
    Control::read(stream)?.expect(ControlKind::Finish)
}
