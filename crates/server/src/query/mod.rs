//! `nomen query`: asks one question and prints the answer as dig does, short, or as JSON. The words of the command
//! line are read in `words`, the message goes out and back in `ask`, and `print` shows it.

pub mod ask;
pub mod print;
pub mod words;

use std::io::{self, Write};

use wire::Rcode;

use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE, Query};
use words::{Form, Wanted};

/// Runs the verb; returns the exit code.
pub fn run(args: &Query) -> u8 {
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
            eprintln!("nomen: cannot write: {}", crate::words::reason(&e));
            EXIT_OUTSIDE
        }
    }
}

fn exchange(wanted: &Wanted) -> io::Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let query = match ask::message(wanted) {
        Ok(query) => query,
        Err(message) => {
            eprintln!("nomen: {message}");
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
        Form::Full => print::full(&answer.message).map(|text| text + &print::footer(&answer)),
        Form::Short => print::short(&answer.message),
        Form::Json => print::json(&answer).map(|value| format!("{value:#}\n")),
    };
    let Ok(text) = text else {
        out.flush()?;
        eprintln!("nomen: {} sent a malformed answer of {} octets", answer.server, answer.message.len());
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
