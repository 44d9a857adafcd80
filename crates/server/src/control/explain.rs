//! `nomen ctl explain`: which zone, node and rule give the answer to a question, step by step, and the answer
//! itself as the query path makes it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use authority::lookup::{self, Found};
use engine::{Packet, Transport, Verdict, Worker};
use serde_json::{Value, json};
use wire::hash::HashedName;
use wire::name::{Name, NameBuf};
use wire::{Class, Type};
use zone::Zone;
use zone::catalog::Catalog;
use zone::store::{Node, NodeFlags};

use crate::app::App;
use crate::config::pattern::zone_name;
use crate::query::words::Wanted;
use crate::query::{ask, print};

/// Explains a question of class IN.
pub(super) fn explain(app: &Arc<App>, name: &str, rtype: &str, dnssec: bool) -> Result<Value, String> {
    let name = zone_name(name)?;
    let rtype: Type =
        rtype.to_ascii_uppercase().parse().map_err(|_| format!("`{rtype}` is no record type"))?;
    let catalog = app.engine.catalog();
    let max_chain = app.settings.load().server.max_chain.as_usize();
    let mut steps = Vec::new();
    let mut at = Some(name);
    let mut links = 0;
    while let Some(name) = at.take() {
        at = step(app, &catalog, &name, rtype, &mut steps);
        links += 1;
        if at.is_some() && links > max_chain {
            steps.push(format!("{max_chain} links were followed: the chain ends here (`max-chain`)"));
            break;
        }
    }
    let answer = answer(app, name, rtype, dnssec)?;
    Ok(json!({"steps": steps, "answer": answer}))
}

/// One name: adds what is found to the steps and returns where a CNAME or DNAME leads.
fn step(
    app: &App,
    catalog: &Catalog,
    name: &NameBuf,
    rtype: Type,
    steps: &mut Vec<String>,
) -> Option<NameBuf> {
    let mut hashed = HashedName::new();
    hashed.set(app.key(), name.as_name());
    let Some((mut entry, mut below)) = catalog.find(&hashed) else {
        steps.push(format!("{name}: no zone here holds this name; a question for it is refused"));
        return None;
    };
    if rtype == Type::DS && below == 0 {
        match catalog.find_skipping(&hashed, 1) {
            Some((above, labels)) => {
                steps.push(format!(
                    "{name} {rtype}: DS records lie above the cut, so zone {} answers",
                    above.name()
                ));
                (entry, below) = (above, labels);
            }
            None => steps
                .push(format!("{name} {rtype}: the zone above is not served here; {} answers", entry.name())),
        }
    } else {
        steps.push(format!("{name}: zone {} is the longest match", entry.name()));
    }
    let Some(zone) = entry.zone() else {
        steps
            .push(format!("zone {} is not loaded: SERVFAIL (see `nomen ctl zone status {0}`)", entry.name()));
        return None;
    };
    steps.push(format!("zone {}: serial {}, {}", entry.name(), zone.serial(), signed_word(zone)));
    let found = lookup::find(zone, app.key(), &hashed, below, rtype == Type::DS);
    let ancestor = |skip: usize| Name::from_wire(hashed.suffix(skip)).unwrap_or(Name::ROOT);
    match found {
        Found::Exact(node) => at_node(node, rtype, steps, &format!("node {}", node.owner())),
        Found::Cut { node, .. } => {
            steps.push(format!(
                "{} is delegated: NS there, so the answer is a referral (RFC 1034 §4.3.2 step 3b)",
                node.owner()
            ));
            None
        }
        Found::Dname { node, skip } => {
            steps.push(format!("{} has a DNAME, which rules every name below it (RFC 6672)", node.owner()));
            let target = target(node, Type::DNAME)?;
            let labels = hashed.label_count() - skip;
            let next = NameBuf::replace_suffix(name.as_name(), labels, target.as_name());
            steps.push(match &next {
                Ok(next) => format!("a CNAME to {next} is made from it"),
                Err(_) => "the new name would be too long: YXDOMAIN".into(),
            });
            next.ok()
        }
        Found::Wildcard { node, skip } => {
            let encloser = ancestor(skip);
            steps.push(format!("{name} does not exist; its closest encloser is {encloser}"));
            at_node(node, rtype, steps, &format!("wildcard {} (RFC 4592)", node.owner()))
        }
        Found::Nothing { skip } => {
            steps.push(format!(
                "{name} does not exist; its closest encloser is {}, which has no wildcard: NXDOMAIN",
                ancestor(skip)
            ));
            None
        }
    }
}

fn signed_word(zone: &Zone) -> &'static str {
    match (zone.is_signed(), zone.nsec3()) {
        (false, _) => "not signed",
        (true, Some(_)) => "signed, denial by NSEC3",
        (true, None) => "signed, denial by NSEC",
    }
}

/// What a node gives for a type; returns where its CNAME leads.
fn at_node(node: Node<'_>, rtype: Type, steps: &mut Vec<String>, what: &str) -> Option<NameBuf> {
    let types: Vec<String> = node.rrsets().map(|set| set.rtype().to_string()).collect();
    if types.is_empty() || node.flags().contains(NodeFlags::EMPTY) {
        steps.push(format!("{what} is an empty non-terminal: NODATA (RFC 8020)"));
        return None;
    }
    steps.push(format!("{what} has {}", types.join(", ")));
    if rtype == Type::ANY {
        steps.push("ANY gets one of its RRsets (RFC 8482)".into());
        return None;
    }
    if let Some(set) = node.rrset(rtype) {
        let sigs = set.sig_count();
        steps.push(format!(
            "{rtype} is there: {} records, TTL {}, {sigs} signatures",
            set.count(),
            set.ttl()
        ));
        return None;
    }
    let next = target(node, Type::CNAME);
    steps.push(match &next {
        Some(next) => format!("no {rtype}, but a CNAME to {next}"),
        None => format!("no {rtype}: NODATA with the SOA (RFC 2308)"),
    });
    next
}

/// The name a CNAME or DNAME points to.
fn target(node: Node<'_>, rtype: Type) -> Option<NameBuf> {
    let record = node.rrset(rtype)?.rdatas().next()?;
    let mut octets = Vec::new();
    record.copy_to(&mut octets);
    Some(Name::from_wire(&octets).ok()?.to_buf())
}

/// The answer that the query path makes, as text; counted nowhere.
fn answer(app: &Arc<App>, name: NameBuf, qtype: Type, dnssec_ok: bool) -> Result<String, String> {
    let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let wanted = Wanted { name, qtype, qclass: Class::IN, dnssec_ok, tcp: true, ..Wanted::new() };
    let query = ask::message(&wanted)?;
    let packet = Packet { octets: &query, peer, transport: Transport::Tcp };
    let mut worker = Worker::new(Arc::clone(&app.engine), Arc::default());
    let mut out = vec![0; 65_535];
    worker.begin();
    worker.prepare(0, &packet);
    let verdict = worker.answer(0, &packet, &mut out, &mut || Box::new(Nobody));
    match verdict {
        Verdict::Reply(octets) => {
            print::full(&out[..octets]).map_err(|e| format!("the answer is broken: {e}"))
        }
        Verdict::Drop => Ok(";; no reply\n".into()),
        Verdict::Pending => Ok(";; the answer comes later\n".into()),
        Verdict::Stream(_) => Ok(";; the answer is a stream of messages\n".into()),
    }
}

/// Takes answers nobody waits for.
struct Nobody;

impl engine::Responder for Nobody {
    fn send(self: Box<Self>, _message: &[u8]) {}
}
