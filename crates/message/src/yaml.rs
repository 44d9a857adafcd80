//! A message as YAML, in the form of dig's `+yaml`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::SystemTime;

use wire::message::Malformed;

use crate::decoded::{DecodedMessage, ShownQuestion, ShownRecord, edns_flags, flag_words};
use crate::style::{self, Style};
use wording::rfc3339;

/// The addresses and times of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    /// The server.
    pub server: SocketAddr,
    /// The local address of the query's socket.
    pub client: SocketAddr,
    /// Whether the transport is TCP.
    pub tcp: bool,
    /// When the query was sent.
    pub sent: SystemTime,
    /// When the response was received.
    pub received: SystemTime,
}

/// Returns a response as one document of a YAML list.
///
/// # Errors
/// If the message cannot be parsed.
pub fn response(message: &[u8], passage: &Passage, style: &Style) -> Result<String, Malformed> {
    let parts = DecodedMessage::of(message)?;
    let Passage { server, client, tcp, sent, received } = passage;
    let header = &parts.header;
    let kind = match header.recursion_desired() && header.recursion_available() {
        true => "RECURSIVE_RESPONSE",
        false => "AUTH_RESPONSE",
    };
    let family = if server.is_ipv4() { "INET" } else { "INET6" };
    let protocol = if *tcp { "TCP" } else { "UDP" };
    let [qd, an, ns, ar] = header.counts();
    let mut out = format!(
        "- type: MESSAGE\n  message:\n    type: {kind}\n    query_time: !!timestamp {}\n    \
         response_time: !!timestamp {}\n    message_size: {}b\n    socket_family: {family}\n    \
         socket_protocol: {protocol}\n    response_address: \"{}\"\n    response_port: {}\n    \
         query_address: \"{}\"\n    query_port: {}\n    response_message_data:\n      opcode: {}\n      \
         status: {}\n      id: {}\n      flags:{}\n      QUESTION: {qd}\n      ANSWER: {an}\n      \
         AUTHORITY: {ns}\n      ADDITIONAL: {ar}\n",
        rfc3339(*sent),
        rfc3339(*received),
        message.len(),
        server.ip(),
        server.port(),
        client.ip(),
        client.port(),
        header.opcode(),
        parts.rcode(),
        header.id(),
        flag_words(header),
    );
    write_edns(&mut out, &parts);
    if !parts.questions.is_empty() {
        out += "      QUESTION_SECTION:\n";
    }
    for ShownQuestion { name, class, qtype } in &parts.questions {
        item(&mut out, &format!("{name} {class} {qtype}"));
    }
    for (title, section) in ["ANSWER", "AUTHORITY", "ADDITIONAL"].iter().zip(&parts.sections) {
        if !section.is_empty() {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(out, "      {title}_SECTION:");
        }
        section.iter().for_each(|record| item(&mut out, &record_text(record, style)));
    }
    Ok(out)
}

/// Returns the document for a query that no server answered.
pub fn failure(message: &str) -> String {
    format!("- type: DIG_ERROR\n  message: |\n    {}\n", message.replace('\n', "\n    "))
}

fn record_text(record: &ShownRecord, style: &Style) -> String {
    // A document has one line for each record.
    let style = Style { multiline: false, comments: Some(false), ..*style };
    style::line(record, &style).trim_end().replace('\t', " ")
}

fn write_edns(out: &mut String, parts: &DecodedMessage<'_>) {
    let Some(opt) = &parts.opt else { return };
    let flags = edns_flags(opt);
    let _ = write!(
        out,
        "      OPT_PSEUDOSECTION:\n        EDNS:\n          version: \
        {}\n          flags:{flags}\n          udp: {}\n",
        opt.version, opt.udp_size
    );
    let mut seen: Vec<(String, Vec<String>)> = Vec::new();
    for (code, data) in opt.options {
        let text = parts.option_text(code, data);
        let (name, value) = text.split_once(": ").unwrap_or((&text, ""));
        match seen.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(quoted(value)),
            None => seen.push((name.to_owned(), vec![quoted(value)])),
        }
    }
    for (name, values) in seen {
        let _ = match &values[..] {
            [one] => writeln!(out, "          {name}: {one}"),
            several => writeln!(out, "          {name}: [{}]", several.join(", ")),
        };
    }
}

fn item(out: &mut String, text: &str) {
    let _ = writeln!(out, "        - {}", quoted(text));
}

/// Returns a scalar in single quotes, in which only single quotes are special.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
