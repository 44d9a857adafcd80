//! `nomen query`: asks questions and prints the answers as dig does, short, or as JSON. The words of the command line are
//! read in `words`, those of a file of queries in `batch`, and the message goes out and back in `ask`; zone transfers are
//! read in `transfer`.

pub mod ask;
pub mod batch;
pub mod server;
pub mod transfer;
pub mod words;

use std::io::{self, Write};

use serde_json::{Value, json};
use wire::Rcode;

use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE, QueryArgs};
use crate::message::print;
use crate::words::reason;
use ask::Received;
use transfer::{Transfer, TransferFault, is_transfer};
use words::{Form, Wanted};

/// Runs the verb; returns the exit code: that of the query that went worst.
pub fn run(args: &QueryArgs) -> u8 {
    let all = match &args.file {
        None => words::read(args).map_err(|fault| (fault.to_string(), EXIT_USAGE)),
        Some(path) => batch::read(path, args).map_err(|fault| (fault.to_string(), fault.exit_code())),
    };
    let all = match all {
        Ok(all) => all,
        Err((message, code)) => {
            eprintln!("nomen: {message}");
            return code;
        }
    };
    let mut worst = EXIT_OK;
    for (at, wanted) in all.into_iter().enumerate() {
        if at > 0 && wanted.form == Form::Full && wanted.parts.comments {
            println!();
        }
        worst = worst.max(ask_one(wanted));
    }
    worst
}

/// Asks one question and prints the answer.
fn ask_one(wanted: Wanted) -> u8 {
    let wanted = match located(wanted) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_OUTSIDE;
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

/// The same with the address of its server, where that has a name: the first it has.
pub fn located(mut wanted: Wanted) -> Result<Wanted, String> {
    if let Some(host) = wanted.host.take() {
        let found = server::addresses(&host, wanted.family, &wanted)?;
        found.first().into_iter().for_each(|ip| wanted.server.set_ip(*ip));
    }
    Ok(wanted)
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
    if is_transfer(wanted.query.qtype) {
        return transfer(wanted, &query, &mut out);
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
        Form::Full => {
            let stats = if wanted.parts.stats { footer(&answer) } else { String::new() };
            print::chosen(&answer.message, wanted.parts).map(|text| text + &stats)
        }
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

/// Prints a transfer as it arrives.
fn transfer(wanted: &Wanted, query: &[u8], out: &mut impl Write) -> io::Result<u8> {
    let mut transfer = match Transfer::begin(wanted, query) {
        Ok(transfer) => transfer,
        Err(fault) => {
            out.flush()?;
            eprintln!("nomen: {fault}");
            return Ok(EXIT_OUTSIDE);
        }
    };
    let fault = loop {
        match transfer.next_message() {
            Ok(Some(message)) => {
                let text = match wanted.form {
                    Form::Full => print::answers(&message, wanted.parts),
                    Form::Short => print::short(&message),
                    Form::Json => print::json(&message).map(|parts| format!("{parts}\n")),
                };
                // What cannot be read is reported next.
                out.write_all(text.unwrap_or_default().as_bytes())?;
                out.flush()?;
            }
            Ok(None) => break None,
            Err(fault) => break Some(fault),
        }
    };
    end_of_transfer(wanted, &transfer, fault.as_ref(), out)?;
    out.flush()?;
    Ok(match fault {
        None => EXIT_OK,
        Some(TransferFault::Refused(..)) => EXIT_FAULTS,
        Some(_) => EXIT_OUTSIDE,
    })
}

/// What has come of a transfer in all, and what keeps it from being complete.
fn end_of_transfer(
    wanted: &Wanted,
    transfer: &Transfer,
    fault: Option<&TransferFault>,
    out: &mut impl Write,
) -> io::Result<()> {
    let Transfer { records, messages, bytes, .. } = transfer;
    let (server, ms) = (wanted.server, transfer.took().as_secs_f64() * 1000.0);
    match wanted.form {
        Form::Full if fault.is_none() && wanted.parts.stats => write!(
            out,
            "\n;; SERVER: {}#{} (TCP)\n;; XFR size: {records} records (messages {messages}, bytes {bytes}), \
             {ms:.0} msec\n",
            server.ip(),
            server.port()
        )?,
        Form::Json => {
            let complete = fault.is_none();
            let end = json!({"server": server.to_string(), "transport": "tcp", "complete": complete,
                "records": records, "messages": messages, "bytes": bytes, "milliseconds": ms});
            writeln!(out, "{end}")?;
        }
        Form::Full | Form::Short => {}
    }
    out.flush()?;
    let (zone, qtype) = (wanted.query.name, wanted.query.qtype);
    match fault {
        None => {}
        Some(fault @ TransferFault::Refused(..)) if *records == 0 => {
            eprintln!("nomen: {qtype} of {zone} from {server}: {fault}");
        }
        Some(fault) => eprintln!(
            "nomen: {qtype} of {zone} from {server} is incomplete after {records} records in {messages} messages: {fault}"
        ),
    }
    Ok(())
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
pub fn with_origin(mut parts: Value, answer: &Received) -> Value {
    parts["server"] = answer.server.to_string().into();
    parts["transport"] = if answer.tcp { "tcp" } else { "udp" }.into();
    parts["milliseconds"] = (answer.took.as_secs_f64() * 1000.0).into();
    parts
}
