//! Accepts connections on the control socket, reads commands, and writes their answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use crate::commands;
use crate::connections::ConnectionPlace;
use crate::fault::CommandFault;
use crate::hand_over;
use crate::parts::ServerParts;
use crate::protocol::{self, ControlCommand};

/// Longest command, in bytes.
const MAX_COMMAND: u64 = 4 * 1024 * 1024;

/// Answers commands for as long as the runtime runs; a message on `stop` requests the shutdown.
pub async fn serve(parts: Arc<ServerParts>, listener: UnixListener, stop: mpsc::Sender<&'static str>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place =
                    parts.connections.control.place(parts.in_force.settings().control.connections.0).await;
                let (parts, stop) = (Arc::clone(&parts), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        // A client that breaks the protocol or disconnects ends only its own connection.
                        _ = converse(parts, stream, stop, &place) => {}
                        () = place.evicted() => {}
                    }
                });
                // Lets the command, which has most likely arrived, be read before the connection can be
                // evicted.
                tokio::task::yield_now().await;
            }
            // Out of file descriptors: some may be free soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(
    parts: Arc<ServerParts>,
    stream: UnixStream,
    stop: mpsc::Sender<&'static str>,
    place: &ConnectionPlace,
) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let longest = parts.in_force.settings().control.idle.0;
        let mut limited = (&mut reader).take(MAX_COMMAND);
        let read = limited.read_until(b'\n', &mut line);
        let Ok(read) = tokio::time::timeout(longest, read).await else { return Ok(()) };
        if read? == 0 {
            return Ok(());
        }
        place.busy();
        let whole = line.ends_with(b"\n");
        let command = match whole {
            true => serde_json::from_slice(&line).map_err(CommandFault::NotACommand),
            false => Err(CommandFault::TooLong(MAX_COMMAND)),
        };
        if matches!(command, Ok(ControlCommand::HandOver)) {
            if hand_over::give(&parts.frontend, &mut writer).await? {
                let _ = stop.send("sockets handed over to another server").await;
            }
            place.idle();
            continue;
        }
        let (lines, mut waiting) = mpsc::channel(4);
        let stopping = matches!(command, Ok(ControlCommand::Stop));
        match command {
            Ok(command) => commands::answer(&parts, command, lines),
            Err(fault) => {
                let _ = lines.try_send(fault.into());
                // The answer ends when the last sender is dropped.
                drop(lines);
            }
        }
        while let Some(line) = waiting.recv().await {
            let text = protocol::line(&line)?;
            // A client that does not read blocks only its own connection.
            place.idle();
            let Ok(written) = tokio::time::timeout(longest, writer.write_all(&text)).await else {
                return Ok(());
            };
            written?;
            place.busy();
        }
        place.idle();
        if stopping {
            let _ = stop.send("nomen ctl stop").await;
        }
        if !whole {
            return Ok(());
        }
    }
}
