//! The steps of a walk or a chase, as text or as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;

use resolver::{Referral, ReplyFault};
use serde_json::{Value, json};
use wire::{LowerNameBuf, NameBuf, Rcode, Type};

use super::ask::ReceivedResponse;
use super::words::{Form, Wanted};
use super::{footer, with_origin};
use message::print;

/// The purpose of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// To find the root servers.
    Guide,
    /// To answer the question.
    Question,
    /// To find the address of a server.
    Address,
    /// To fetch the DS or DNSKEY of a zone.
    Proof,
}

impl Errand {
    fn word(self) -> &'static str {
        match self {
            Self::Guide => "root servers",
            Self::Question => "question",
            Self::Address => "address",
            Self::Proof => "proof",
        }
    }

    /// Returns whether its replies are printed in full.
    fn is_shown(self) -> bool {
        matches!(self, Self::Guide | Self::Question)
    }
}

/// A query of a walk.
#[derive(Debug, Clone, Copy)]
pub struct WalkStep {
    /// Its purpose.
    pub errand: Errand,
    /// The zone whose servers are queried.
    pub zone: NameBuf,
    /// The queried server.
    pub server: SocketAddr,
    /// Its name, if it has one.
    pub host: Option<LowerNameBuf>,
    /// The query name.
    pub name: NameBuf,
    /// The query type.
    pub qtype: Type,
}

impl WalkStep {
    /// Returns the server as dig prints it: `192.0.2.1#53(ns1.example.)`.
    fn server(&self) -> String {
        let mut out = format!("{}#{}", self.server.ip(), self.server.port());
        if let Some(host) = self.host {
            // Writing to a String cannot fail.
            let _ = write!(out, "({})", NameBuf::from(host));
        }
        out
    }

    /// Returns the prefix of a step that is not for the question itself.
    fn front(&self) -> String {
        if self.errand.is_shown() { String::new() } else { format!("({} {}) ", self.name, self.qtype) }
    }
}

/// The steps so far: printed, or collected for JSON.
pub struct Steps<'o> {
    wanted: &'o Wanted,
    out: &'o mut dyn Write,
    kept: Vec<Value>,
}

impl<'o> Steps<'o> {
    /// Returns an empty list of steps, which are printed as `wanted` says.
    pub fn new(wanted: &'o Wanted, out: &'o mut dyn Write) -> Self {
        Steps { wanted, out, kept: Vec::new() }
    }

    /// Returns the steps collected for JSON, and clears them.
    pub fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.kept)
    }

    /// Prints a text.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Records that a server did not reply.
    pub fn silent(&mut self, step: &WalkStep, why: &str) -> io::Result<()> {
        self.keep(step, None, json!({"outcome": "no reply", "fault": why}));
        self.line(&format!("{}{}: {why}", step.front(), step.server()))
    }

    /// Records a reply that cannot be used.
    pub fn useless(
        &mut self,
        step: &WalkStep,
        reply: &ReceivedResponse,
        fault: ReplyFault,
    ) -> io::Result<()> {
        self.keep(step, Some(reply), json!({"outcome": "no use", "fault": fault.to_string()}));
        self.line(&format!("{}{}: the reply cannot be used: {fault}", step.front(), step.server()))
    }

    /// Records a referral to the servers of a child zone.
    pub fn referred(
        &mut self,
        step: &WalkStep,
        reply: &ReceivedResponse,
        referral: &Referral,
    ) -> io::Result<()> {
        let zone = NameBuf::from(referral.zone);
        self.keep(step, Some(reply), json!({"outcome": "referral", "refers_to": zone.to_string()}));
        self.received(step, reply, &format!(": refers to {zone}"))
    }

    /// Records the reply with the answer.
    pub fn answered(&mut self, step: &WalkStep, reply: &ReceivedResponse) -> io::Result<()> {
        self.keep(step, Some(reply), json!({"outcome": "answer"}));
        let rcode = print::rcode(&reply.message).unwrap_or(Rcode::FORMERR);
        self.received(
            step,
            reply,
            &if rcode == Rcode::NOERROR { String::new() } else { format!(": {rcode}") },
        )
    }

    /// Records the reply of the server that resolves the question.
    pub fn resolved(&mut self, step: &WalkStep, reply: &ReceivedResponse) -> io::Result<()> {
        if step.errand != Errand::Question {
            return self.answered(step, reply);
        }
        self.keep(step, Some(reply), json!({"outcome": "answer"}));
        if self.wanted.form != Form::Full {
            return Ok(());
        }
        let stats = if self.wanted.parts.stats { footer(reply, None) } else { String::new() };
        let text = print::chosen(&reply.message, self.wanted.parts).unwrap_or_default();
        self.write(&(text + &stats))
    }

    fn received(&mut self, step: &WalkStep, reply: &ReceivedResponse, what: &str) -> io::Result<()> {
        if self.wanted.form != Form::Full {
            return Ok(());
        }
        if step.errand.is_shown() {
            let text = print::chosen(&reply.message, self.wanted.parts).unwrap_or_default();
            self.write(&text)?;
        }
        let (bytes, ms) = (reply.message.len(), reply.took.as_millis());
        let (front, server) = (step.front(), step.server());
        self.line(&format!("{front}Received {bytes} bytes from {server} in {ms} ms{what}"))?;
        if step.errand.is_shown() && self.wanted.parts.stats { self.write("\n") } else { Ok(()) }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        match self.wanted.form {
            Form::Full if self.wanted.parts.stats => self.write(&format!(";; {text}\n")),
            Form::Full | Form::Short | Form::Json | Form::Yaml => Ok(()),
        }
    }

    fn keep(&mut self, step: &WalkStep, reply: Option<&ReceivedResponse>, outcome: Value) {
        if self.wanted.form != Form::Json {
            return;
        }
        let mut kept = json!({
            "for": step.errand.word(),
            "zone": step.zone.to_string(),
            "server": step.server.to_string(),
            "host": step.host.map(|host| NameBuf::from(host).to_string()),
            "QNAME": step.name.to_string(),
            "QTYPEname": step.qtype.to_string(),
        });
        if let (Some(kept), Value::Object(outcome)) = (kept.as_object_mut(), outcome) {
            kept.extend(outcome);
        }
        if let Some(reply) = reply {
            let message = print::json(&reply.message).map(|parts| with_origin(parts, reply));
            kept["message"] = message.unwrap_or(Value::Null);
        }
        self.kept.push(kept);
    }
}
