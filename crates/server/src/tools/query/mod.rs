//! `nomen query`: asks one question and prints the answer as dig does, short, or as JSON. The words of the command
//! line are read in `words`, and the message goes out and back in `ask`.

pub mod ask;
pub mod words;

use std::io::{self, Write};

use serde_json::Value;
use wire::Rcode;

use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE, QueryArgs};
use crate::message::print;
use crate::words::reason;
use ask::Received;
use words::{Form, Wanted};

/// Runs the verb; returns the exit code.
pub fn run(args: &QueryArgs) -> u8 {
    let wanted = match words::read(args) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_USAGE;
        }
    };
    match exchange(&wanted) {
        Ok(code) => code,
        // Whoever reads our output has enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => EXIT_OK,
        Err(e) => {
            eprintln!("nomen: cannot write: {}", reason(&e));
            EXIT_OUTSIDE
        }
    }
}

fn exchange(wanted: &Wanted) -> io::Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let query = match wanted.query.message() {
        Ok(query) => query,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return Ok(EXIT_USAGE);
        }
    };
    if wanted.show_query && wanted.form == Form::Full {
        let shown = print::full(&query).unwrap_or_else(|_| ";; the query cannot be shown\n".into());
        writeln!(out, ";; Sending:\n{shown}")?;
    }
    let answer = match ask::ask(wanted, &query) {
        Ok(answer) => answer,
        Err(message) => {
            out.flush()?;
            eprintln!("nomen: {message}");
            return Ok(EXIT_OUTSIDE);
        }
    };
    let text = match wanted.form {
        Form::Full => print::full(&answer.message).map(|text| text + &footer(&answer)),
        Form::Short => print::short(&answer.message),
        Form::Json => {
            print::json(&answer.message).map(|parts| format!("{:#}\n", with_origin(parts, &answer)))
        }
    };
    let Ok(text) = text else {
        out.flush()?;
        eprintln!("nomen: {} sent a malformed answer of {} bytes", answer.server, answer.message.len());
        return Ok(EXIT_OUTSIDE);
    };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let rcode = print::rcode(&answer.message).unwrap_or(Rcode::FORMERR);
    let good = matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
    if !good && wanted.form == Form::Short {
        eprintln!(";; {rcode} from {}", answer.server);
    }
    Ok(if good { EXIT_OK } else { EXIT_FAULTS })
}

/// How the answer came, in the form of dig.
fn footer(answer: &Received) -> String {
    let Received { message, server, tcp, took } = answer;
    let transport = if *tcp { "TCP" } else { "UDP" };
    format!(
        "\n;; Query time: {} msec\n;; SERVER: {}#{} ({transport})\n;; MSG SIZE  rcvd: {}\n",
        took.as_millis(),
        server.ip(),
        server.port(),
        message.len()
    )
}

/// Adds how the answer came to the parts of its message.
fn with_origin(mut parts: Value, answer: &Received) -> Value {
    parts["server"] = answer.server.to_string().into();
    parts["transport"] = if answer.tcp { "tcp" } else { "udp" }.into();
    parts["milliseconds"] = (answer.took.as_secs_f64() * 1000.0).into();
    parts
}
