//! `--trace` and `--chase`: follows aliases from the question to the answer, and prints the result.

use std::io::{self, Write};

use serde_json::{Value, json};
use validator::{Security, TrustAnchors};
use wire::{NameBuf, Rcode, Type};

use super::chain;
use super::chase::{Answerer, Chase, NoReply};
use super::steps::{Errand, Steps};
use super::walk::{Walk, WalkFault};
use super::words::{Form, Wanted};
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use message::print;

/// Largest number of aliases followed from one answer to the next.
const MAX_ALIASES: usize = 16;

/// The end of the alias chain.
struct End {
    /// The data of all answers, for the short form.
    short: String,
    /// The response code of the last one.
    rcode: Rcode,
    /// The alias that was not followed.
    open: Option<NameBuf>,
}

/// Runs `--trace` and `--chase`, and prints the result. Returns the exit code.
pub fn run(wanted: &Wanted, anchors: &TrustAnchors, out: &mut dyn Write) -> io::Result<u8> {
    let mut steps = Steps::new(wanted, out);
    let mut chase = wanted.chase.then(|| Chase::new(anchors));
    let end = match pursue(wanted, &mut chase, &mut steps) {
        Err(NoReply::Walk(WalkFault::Output(e))) => return Err(e),
        other => other,
    };
    match wanted.form {
        Form::Json => print_json(wanted, chase.as_ref(), &end, &mut steps)?,
        // YAML is refused with these options.
        Form::Full | Form::Yaml => print_chain(chase.as_ref(), &mut steps)?,
        Form::Short => print_short(chase.as_ref(), &end, &mut steps)?,
    }
    Ok(match &end {
        Err(fault) => {
            eprintln!("nomen: {fault}");
            EXIT_OUTSIDE
        }
        Ok(End { open: Some(name), .. }) => {
            eprintln!("nomen: the chain of aliases is too long: {name} is not looked up");
            EXIT_FAULTS
        }
        Ok(end) => {
            let is_good = matches!(end.rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
            if is_good && !is_bogus(chase.as_ref()) { EXIT_OK } else { EXIT_FAULTS }
        }
    })
}

fn is_bogus(chase: Option<&Chase<'_>>) -> bool {
    let worst = chase.and_then(Chase::worst);
    worst.is_some_and(|validated| matches!(validated.security, Security::Bogus(_)))
}

/// Follows all aliases of the question.
fn pursue(wanted: &Wanted, chase: &mut Option<Chase<'_>>, steps: &mut Steps<'_>) -> Result<End, NoReply> {
    let mut source = match wanted.trace {
        true => Answerer::Walk(Walk::begin(wanted, steps).map_err(NoReply::Walk)?),
        false => Answerer::Server(wanted),
    };
    let (mut name, qtype) = (wanted.query.name, wanted.query.qtype);
    let mut end = End { short: String::new(), rcode: Rcode::NOERROR, open: None };
    for _ in 0..MAX_ALIASES {
        let reply = source.ask(steps, Errand::Question, name, qtype)?;
        end.rcode = reply.rcode;
        end.short += &print::short_unsigned(&reply.received.message).unwrap_or_default();
        let mut next = reply.leads_to;
        if let Some(chase) = chase
            && matches!(reply.rcode, Rcode::NOERROR | Rcode::NXDOMAIN)
        {
            next = next.or(chase.validate(&mut source, steps, &reply)?);
        }
        match next.filter(|_| !matches!(qtype, Type::ANY | Type::CNAME)) {
            Some(alias) => name = alias.into(),
            None => return Ok(end),
        }
    }
    Ok(End { open: Some(name), ..end })
}

fn print_chain(chase: Option<&Chase<'_>>, steps: &mut Steps<'_>) -> io::Result<()> {
    let Some(chase) = chase else { return Ok(()) };
    let outcome = chase.worst().map_or("not validated, there is no answer".into(), chain::outcome);
    let chain = chase.chain();
    if !chain.is_empty() {
        steps.write(&chain::text(&chain))?;
    }
    steps.write(&format!("\n;; SECURITY: {outcome}\n"))
}

/// Prints the short form; programs do not receive bogus answers.
fn print_short(
    chase: Option<&Chase<'_>>,
    end: &Result<End, NoReply>,
    steps: &mut Steps<'_>,
) -> io::Result<()> {
    if let Some(validated) = chase.and_then(Chase::worst) {
        eprintln!(";; {}", chain::outcome(validated));
    }
    match end {
        Ok(end) if !is_bogus(chase) => steps.write(&end.short),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn print_json(
    wanted: &Wanted,
    chase: Option<&Chase<'_>>,
    end: &Result<End, NoReply>,
    steps: &mut Steps<'_>,
) -> io::Result<()> {
    let mut all = json!({
        "QNAME": wanted.query.name.to_string(),
        "QTYPEname": wanted.query.qtype.to_string(),
        "RCODEname": end.as_ref().ok().map(|end| end.rcode.to_string()),
        "fault": end.as_ref().err().map(ToString::to_string),
        "steps": steps.take(),
    });
    if let Some(chase) = chase {
        all["chain"] = serde_json::to_value(chase.chain()).unwrap_or(Value::Null);
        all["validation"] = chase.worst().map_or(Value::Null, chain::outcome_json);
    }
    steps.write(&format!("{all:#}\n"))
}
