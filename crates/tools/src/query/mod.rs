//! `nomen query`: sends queries and prints the answers as dig does, in short form, or as JSON. `words` and
//! `options` parse the command line, `batch` a file of queries; `ask` exchanges messages, `secured` over
//! TLS, `quic` over QUIC, `oblivious` by Oblivious DoH; `transfer` reads zone transfers. `pursue` implements
//! `--trace`, from the root servers down (`walk`), and `--chase`, validated from the trust anchors
//! (`anchors`) down, with the queries this takes (`chase`); `steps` and `chain` print the path.

pub mod anchors;
pub mod as_dig;
pub mod ask;
pub mod batch;
pub mod chain;
pub mod chase;
mod oblivious;
pub mod options;
pub mod pursue;
mod quic;
pub mod secured;
pub mod server;
pub mod steps;
pub mod transfer;
pub mod walk;
pub mod words;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use ::transfer::tsig::{ResponseVerifier, TsigKey};
use serde_json::{Value, json};
use validator::TrustAnchors;
use wire::Rcode;
use wire::message::Full;

use crate::args::QueryArgs;
use crate::signing::{self, SignatureFault};
use ask::ReceivedResponse;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use message::{QuerySpec, QueryTooLong, print, yaml};
use transfer::{IncompleteTransfer, Transfer, is_transfer};
use wording::reason;
use words::{Form, Wanted, WordFault};

/// Runs the verb; returns the worst exit code of all queries, or in dig mode that of the last one.
pub fn run(args: &QueryArgs) -> u8 {
    let all = match &args.file {
        None => words::read(args).map_err(|fault| (fault.to_string(), EXIT_USAGE)),
        Some(path) => batch::read(path, args).map_err(|fault| (fault.to_string(), fault.exit_code())),
    };
    match all {
        Ok(all) if args.dig => {
            ask_all(args, all).map_or(as_dig::USAGE, |codes| codes.last().copied().unwrap_or(as_dig::OK))
        }
        Ok(all) => {
            ask_all(args, all).map_or_else(|code| code, |codes| codes.into_iter().max().unwrap_or(EXIT_OK))
        }
        Err((message, code)) => {
            eprintln!("nomen: {message}");
            match code {
                EXIT_OUTSIDE if args.dig => as_dig::FILE,
                _ if args.dig => as_dig::USAGE,
                code => code,
            }
        }
    }
}

/// Sends all queries. Returns the exit code of each, or of the fault that prevents all.
fn ask_all(args: &QueryArgs, all: Vec<Wanted>) -> Result<Vec<u8>, u8> {
    let key = match signing::key(&args.key) {
        Ok(key) => key,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return Err(fault.exit_code());
        }
    };
    let anchors = match anchors::read(args) {
        Ok(anchors) => anchors,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return Err(fault.exit_code());
        }
    };
    if key.is_some() && all.iter().any(|wanted| wanted.trace || wanted.chase) {
        eprintln!("nomen: a key is for one server: it goes with neither --trace nor --chase");
        return Err(EXIT_USAGE);
    }
    let mut codes = Vec::new();
    for (at, wanted) in all.into_iter().enumerate() {
        if at > 0 && wanted.form == Form::Full && wanted.parts.comments {
            say!("");
        }
        let ended = ask_one(wanted, key.as_ref(), &anchors);
        codes.push(if args.dig { ended.dig_code() } else { ended.code() });
    }
    Ok(codes)
}

/// The end of a query.
enum Ended {
    /// With this exit code.
    Code(u8),
    /// Its server has no address.
    NoServer,
    /// The answer could not be written.
    NotWritten,
}

impl Ended {
    fn code(self) -> u8 {
        match self {
            Ended::Code(code) => code,
            Ended::NoServer | Ended::NotWritten => EXIT_OUTSIDE,
        }
    }

    /// Returns the exit code of dig. A response with a bad signature counts as no response.
    fn dig_code(self) -> u8 {
        match self {
            Ended::Code(EXIT_OK | EXIT_FAULTS) => as_dig::OK,
            Ended::Code(EXIT_USAGE) | Ended::NoServer => as_dig::USAGE,
            Ended::Code(_) => as_dig::NO_REPLY,
            Ended::NotWritten => as_dig::INTERNAL,
        }
    }
}

/// Sends one query, signed if there is a key, and prints the answer.
fn ask_one(wanted: Wanted, key: Option<&Arc<TsigKey>>, anchors: &TrustAnchors) -> Ended {
    let wanted = match located(wanted) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("nomen: {message}");
            return Ended::NoServer;
        }
    };
    let done = match wanted.trace || wanted.chase {
        true => pursue::run(&wanted, anchors, &mut io::BufWriter::new(io::stdout().lock())),
        false => exchange(&wanted, key),
    };
    match done {
        Ok(code) => Ended::Code(code),
        Err(e) => {
            eprintln!("nomen: cannot write: {}", reason(&e));
            Ended::NotWritten
        }
    }
}

/// Adds the addresses of the servers: those of the server's name, if it has one, or without a server those of
/// `/etc/resolv.conf`.
pub fn located(mut wanted: Wanted) -> Result<Wanted, String> {
    let found = match wanted.host.take() {
        Some(host) => {
            if let Some(tls) = &mut wanted.tls
                && tls.name.is_none()
            {
                tls.name = host.parse().ok();
            }
            server::addresses(&host, wanted.family, &wanted)?
        }
        None if wanted.has_server || wanted.trace => Vec::new(),
        None => server::resolvers().into_iter().filter(|ip| wanted.family.takes(*ip)).collect(),
    };
    let port = wanted.server.port();
    let mut found = found.into_iter().map(|ip| SocketAddr::new(ip, port));
    if let Some(first) = found.next() {
        wanted.server = first;
        wanted.others = found.collect();
    }
    if let Some(source) = wanted.source
        && source.is_ipv4() != wanted.server.is_ipv4()
    {
        return Err(WordFault::SourceFamily(source.ip(), wanted.server.ip()).to_string());
    }
    Ok(wanted)
}

fn exchange(wanted: &Wanted, key: Option<&Arc<TsigKey>>) -> io::Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if wanted.show_command && wanted.form == Form::Full {
        let words: Vec<String> = std::env::args().skip(if as_dig::is_called_dig() { 1 } else { 2 }).collect();
        let version = env!("CARGO_PKG_VERSION");
        writeln!(out, "; <<>> nomen {version} <<>> {}\n;; global options: +cmd", words.join(" "))?;
    }
    let mut names = server::searched(wanted).into_iter().peekable();
    while let Some(name) = names.next() {
        let query = QuerySpec { name, ..wanted.query.clone() };
        let wanted = Wanted { query, ..wanted.clone() };
        let ended = exchange_one(&wanted, key, names.peek().is_some(), &mut out)?;
        if let Some(code) = ended {
            return Ok(code);
        }
    }
    Ok(EXIT_OK)
}

/// Queries for one name, and prints the answer. Returns `None` for NXDOMAIN if another name is to be tried.
fn exchange_one(
    wanted: &Wanted,
    key: Option<&Arc<TsigKey>>,
    has_next: bool,
    out: &mut impl Write,
) -> io::Result<Option<u8>> {
    let query = wanted.query.message().and_then(|mut query| {
        let verifier = signing::sign(key, &mut query).map_err(|Full| QueryTooLong)?;
        Ok((query, verifier))
    });
    let (query, verifier) = match query {
        Ok(query) => query,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return Ok(Some(EXIT_USAGE));
        }
    };
    if wanted.show_query && wanted.form == Form::Full {
        let shown = print::full(&query).unwrap_or_else(|_| ";; the query cannot be shown\n".into());
        writeln!(out, ";; Sending:\n{shown}")?;
    }
    if is_transfer(wanted.query.qtype) {
        return transfer(wanted, &query, verifier, out).map(Some);
    }
    let answer = match ask_in_turn(wanted, &query) {
        Ok(answer) => answer,
        Err(message) => {
            if wanted.form == Form::Yaml {
                out.write_all(yaml::failure(&message).as_bytes())?;
            }
            out.flush()?;
            eprintln!("nomen: {message}");
            return Ok(Some(EXIT_OUTSIDE));
        }
    };
    if has_next && print::rcode(&answer.message) == Ok(Rcode::NXDOMAIN) {
        return Ok(None);
    }
    let signed = verifier.map(|verifier| Signed {
        key: Arc::clone(verifier.key()),
        fault: signing::verify_whole(verifier, &answer.message).err(),
    });
    show(wanted, &answer, signed.as_ref(), out).map(Some)
}

/// Queries the servers one after the other until one answers. With `past_failure`, SERVFAIL counts as no
/// answer while there is a next server.
fn ask_in_turn(wanted: &Wanted, query: &[u8]) -> Result<ReceivedResponse, String> {
    let mut servers = std::iter::once(wanted.server).chain(wanted.others.iter().copied()).peekable();
    let mut last = Err("there is no server to ask".to_owned());
    while let Some(server) = servers.next() {
        let answer = ask::ask(&Wanted { server, ..wanted.clone() }, query);
        let failed = |answer: &ReceivedResponse| print::rcode(&answer.message) == Ok(Rcode::SERVFAIL);
        let done = answer.as_ref().is_ok_and(|answer| !wanted.past_failure || !failed(answer));
        if let (Err(message), Some(_)) = (&answer, servers.peek()) {
            eprintln!(";; {message}");
        }
        last = answer;
        if done {
            break;
        }
    }
    last
}

/// The result of a signed query.
struct Signed {
    key: Arc<TsigKey>,
    /// Why the answer is not authentic, if it is not.
    fault: Option<SignatureFault>,
}

/// Prints an answer. The short form, which programs read, omits an answer that is not authentic.
fn show(
    wanted: &Wanted,
    answer: &ReceivedResponse,
    signed: Option<&Signed>,
    out: &mut impl Write,
) -> io::Result<u8> {
    let fault = signed.and_then(|signed| signed.fault.as_ref());
    let text = match wanted.form {
        Form::Full => {
            let stats = if wanted.parts.stats { footer(answer, signed) } else { String::new() };
            print::chosen(&answer.message, wanted.parts).map(|text| text + &stats)
        }
        Form::Short if fault.is_some() => Ok(String::new()),
        Form::Short => {
            print::short(&answer.message, wanted.style()).map(|records| short(wanted, &records, answer))
        }
        Form::Yaml => yaml::response(&answer.message, &passage(wanted, answer), wanted.style()),
        Form::Json => print::json(&answer.message).map(|parts| {
            let mut parts = with_origin(parts, answer);
            if let Some(Signed { key, fault }) = signed {
                parts["tsig"] = json!({"key": key.name().to_string(), "algorithm": key.algorithm().text(),
                    "verified": fault.is_none(), "fault": fault.as_ref().map(ToString::to_string)});
            }
            format!("{parts:#}\n")
        }),
    };
    let server = answer.server;
    let Ok(text) = text else {
        out.flush()?;
        eprintln!("nomen: {server} sent a malformed answer of {} bytes", answer.message.len());
        return Ok(EXIT_OUTSIDE);
    };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if let Some(fault) = fault {
        match fault.is_refusal() {
            true => eprintln!("nomen: {server} refuses the signature of the query: {fault}"),
            false => eprintln!("nomen: the answer of {server} cannot be trusted: {fault}"),
        }
        return Ok(fault.exit_code());
    }
    let rcode = print::rcode(&answer.message).unwrap_or(Rcode::FORMERR);
    let good = matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
    if !good && wanted.form == Form::Short {
        eprintln!(";; {rcode} from {server}");
    }
    Ok(if good { EXIT_OK } else { EXIT_FAULTS })
}

/// Returns the records of the short form, each with its server if that is wanted.
fn short(wanted: &Wanted, records: &[String], answer: &ReceivedResponse) -> String {
    let from = match wanted.identify {
        true => format!(" from server {} in {} ms.", answer.server.ip(), answer.took.as_millis()),
        false => String::new(),
    };
    records.iter().map(|record| format!("{record}{from}\n")).collect()
}

/// Returns the addresses and times of an exchange, for YAML.
fn passage(wanted: &Wanted, answer: &ReceivedResponse) -> yaml::Passage {
    let received = SystemTime::now();
    yaml::Passage {
        server: answer.server,
        client: wanted.source.unwrap_or_else(|| ask::any_source(answer.server)),
        tcp: answer.transport.is_stream(),
        sent: received.checked_sub(answer.took).unwrap_or(received),
        received,
    }
}

/// Prints a transfer as it is received.
fn transfer(
    wanted: &Wanted,
    query: &[u8],
    verifier: Option<ResponseVerifier>,
    out: &mut impl Write,
) -> io::Result<u8> {
    let key = verifier.as_ref().map(|verifier| Arc::clone(verifier.key()));
    let mut transfer = match Transfer::begin(wanted, query, verifier) {
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
                    Form::Short => print::short(&message, wanted.style())
                        .map(|records| records.iter().map(|record| format!("{record}\n")).collect()),
                    Form::Yaml => yaml::response(&message, &transfer.passage(wanted), wanted.style()),
                    Form::Json => print::json(&message).map(|parts| format!("{parts}\n")),
                };
                // An unreadable message is reported by the next call.
                out.write_all(text.unwrap_or_default().as_bytes())?;
                out.flush()?;
            }
            Ok(None) => break None,
            Err(fault) => break Some(fault),
        }
    };
    end_of_transfer(wanted, &transfer, key.as_deref(), fault.as_ref(), out)?;
    out.flush()?;
    Ok(match fault {
        None => EXIT_OK,
        Some(IncompleteTransfer::Refused(..)) => EXIT_FAULTS,
        Some(IncompleteTransfer::Signature(fault)) => fault.exit_code(),
        Some(_) => EXIT_OUTSIDE,
    })
}

/// Prints the totals of a transfer, and why it is incomplete if it is.
fn end_of_transfer(
    wanted: &Wanted,
    transfer: &Transfer,
    key: Option<&TsigKey>,
    fault: Option<&IncompleteTransfer>,
    out: &mut impl Write,
) -> io::Result<()> {
    let Transfer { records, messages, bytes, .. } = transfer;
    let (server, ms) = (wanted.server, transfer.took().as_secs_f64() * 1000.0);
    match wanted.form {
        Form::Full if fault.is_none() && wanted.parts.stats => write!(
            out,
            "\n;; SERVER: {}#{}({}) ({})\n;; XFR size: {records} records (messages {messages}, bytes \
            {bytes}), {ms:.0} msec\n{}",
            server.ip(),
            server.port(),
            server.ip(),
            ask::shown(wanted.stream()),
            key.map(verified_by).unwrap_or_default()
        )?,
        Form::Json => {
            let complete = fault.is_none();
            let mut end = json!({"server": server.to_string(), "transport": wanted.stream().label(), "complete": complete,
                "records": records, "messages": messages, "bytes": bytes, "milliseconds": ms});
            if let Some(key) = key {
                end["tsig"] = json!({"key": key.name().to_string(), "algorithm": key.algorithm().text(),
                    "verified": complete});
            }
            writeln!(out, "{end}")?;
        }
        Form::Full | Form::Short | Form::Yaml => {}
    }
    out.flush()?;
    let (zone, qtype) = (wanted.query.name, wanted.query.qtype);
    match fault {
        None => {}
        Some(fault @ (IncompleteTransfer::Refused(..) | IncompleteTransfer::Signature(_)))
            if *records == 0 =>
        {
            eprintln!("nomen: {qtype} of {zone} from {server}: {fault}");
        }
        Some(fault) => eprintln!(
            "nomen: {qtype} of {zone} from {server} is incomplete after {records} records in {messages} \
            messages: {fault}"
        ),
    }
    Ok(())
}

/// Returns size, server and time of the response, in the form of dig.
fn footer(answer: &ReceivedResponse, signed: Option<&Signed>) -> String {
    let ReceivedResponse { message, server, transport, took } = answer;
    let transport = ask::shown(*transport);
    let signed = match signed {
        None => String::new(),
        Some(Signed { key, fault: None }) => verified_by(key),
        Some(Signed { fault: Some(fault), .. }) => format!(";; TSIG: NOT VERIFIED: {fault}\n"),
    };
    format!(
        "\n;; Query time: {} msec\n;; SERVER: {}#{}({}) ({transport})\n;; MSG SIZE  rcvd: {}\n{signed}",
        took.as_millis(),
        server.ip(),
        server.port(),
        server.ip(),
        message.len()
    )
}

/// Returns the line that states that every signature was good.
fn verified_by(key: &TsigKey) -> String {
    format!(";; TSIG: verified, key {} ({})\n", key.name(), key.algorithm())
}

/// Adds server, transport and time to the fields of a message.
pub fn with_origin(mut parts: Value, answer: &ReceivedResponse) -> Value {
    parts["server"] = answer.server.to_string().into();
    parts["transport"] = answer.transport.label().into();
    parts["milliseconds"] = (answer.took.as_secs_f64() * 1000.0).into();
    parts
}
