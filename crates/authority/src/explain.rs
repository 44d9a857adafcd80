//! Why an answer is what it is: the zone, the node and the rule, step by step, for people.
//!
//! Follows the same lookup as answering does; the words here are the only thing of its own.

use std::fmt;

use wire::hash::{HashKey, HashedName};
use wire::{Name, NameBuf, Type};
use zone::catalog::Catalog;
use zone::store::{Node, NodeFlags, Zone};

use crate::lookup::{self, Found, zone_for};

/// One step on the way to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What was found or done.
    pub what: String,
    /// The rule behind it, an RFC's section, if there is one to name.
    pub rule: Option<&'static str>,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.rule.map_or(Ok(()), |rule| write!(f, " [{rule}]"))
    }
}

/// Explains what a question for `qname` and `qtype` is answered with. The last step is the answer.
pub fn explain(catalog: &Catalog, key: &HashKey, qname: Name<'_>, qtype: Type, max_chain: u8) -> Vec<Reason> {
    let mut steps = Vec::new();
    let mut name = qname.to_buf();
    let mut hashed = HashedName::new();
    for links in 0..=max_chain as u16 + 1 {
        if links > max_chain as u16 {
            steps.push(step(format!("stop: more than {max_chain} links"), None));
            break;
        }
        hashed.set(key, name.as_name());
        match explain_one(catalog, key, name.as_name(), &hashed, qtype, &mut steps) {
            Some(target) => name = target,
            None => break,
        }
    }
    steps
}

fn step(what: String, rule: Option<&'static str>) -> Reason {
    Reason { what, rule }
}

/// Explains one name and returns the one a chain goes on with.
fn explain_one(
    catalog: &Catalog,
    key: &HashKey,
    name: Name<'_>,
    hashed: &HashedName,
    qtype: Type,
    steps: &mut Vec<Reason>,
) -> Option<NameBuf> {
    let mut say = |what: String, rule| steps.push(step(what, rule));
    let Some(located) = zone_for(catalog, hashed, qtype) else {
        say(format!("no zone here holds {name}: REFUSED, or the chain ends for the client to follow"), None);
        return None;
    };
    let (entry, below) = (catalog.entry(located)?, located.below());
    say(format!("zone {} is the closest that holds {name}", entry.name()), Some("RFC 1034 §4.3.2 step 2"));
    let Some(zone) = entry.zone() else {
        say(format!("zone {} is not loaded: SERVFAIL", entry.name()), None);
        return None;
    };
    let signed = if zone.is_signed() { "signed" } else { "not signed" };
    say(format!("snapshot: serial {}, {} records, {signed}", zone.serial(), zone.record_count()), None);
    let parent_side = qtype == Type::DS && below > 0;
    match lookup::find(zone, key, hashed, below, parent_side) {
        Found::Exact(node) => at_node(zone, name, node, qtype, None, steps),
        Found::Wildcard { node, .. } => {
            say(format!("{name} is not there, {} stands for it", node.owner()), Some("RFC 4592 §3.3"));
            at_node(zone, name, node, qtype, Some(node), steps)
        }
        Found::Cut { node, .. } => {
            say(format!("{} is a zone cut: {}", node.owner(), types(node)), Some("RFC 1034 §4.3.2 step 3b"));
            say(format!("referral to the name servers of {}", node.owner()), None);
            None
        }
        Found::Dname { node, .. } => {
            say(format!("{name} lies below the DNAME at {}", node.owner()), Some("RFC 6672 §3.2"));
            let target = first_name(node, Type::DNAME);
            let made = target
                .and_then(|t| NameBuf::replace_suffix(name, node.owner().label_count(), t.as_name()).ok());
            match made {
                Some(made) => say(format!("a CNAME to {made} is made"), Some("RFC 6672 §3.1")),
                None => say("the name made would be too long: YXDOMAIN".into(), Some("RFC 6672 §2.2")),
            }
            made.filter(|_| !matches!(qtype, Type::CNAME | Type::ANY))
        }
        Found::Nothing { skip } => {
            let encloser = name.skip(skip);
            say(format!("{name} is not there; its closest encloser is {encloser}, without a wildcard"), None);
            say(format!("NXDOMAIN, negative TTL {} s", zone.negative_ttl()), Some("RFC 2308 §2.1"));
            None
        }
    }
}

/// What a node that was found makes of the question.
fn at_node(
    zone: &Zone,
    name: Name<'_>,
    node: Node<'_>,
    qtype: Type,
    wildcard: Option<Node<'_>>,
    steps: &mut Vec<Reason>,
) -> Option<NameBuf> {
    let mut say = |what: String, rule| steps.push(step(what, rule));
    if wildcard.is_none() {
        say(format!("{name} is in the zone: {}", types(node)), None);
    }
    if let Some(set) = node.rrset(qtype) {
        let sigs = set.sig_count();
        say(format!("answer: {} {qtype}, TTL {}, signatures {sigs}", set.count(), set.ttl()), None);
        return None;
    }
    match (qtype, node.rrset(Type::CNAME)) {
        (Type::ANY, _) if node.rrset_count() > 0 => {
            say("answer: one RRset of those there".into(), Some("RFC 8482 §4.1"));
            None
        }
        (qtype, Some(_)) if qtype != Type::RRSIG => {
            let target = first_name(node, Type::CNAME);
            if let Some(target) = target {
                say(format!("CNAME: goes on at {target}"), Some("RFC 1034 §4.3.2 step 3a"));
            }
            target.filter(|t| t.as_name() != name)
        }
        _ => {
            say(
                format!("no {qtype} there: NODATA, negative TTL {} s", zone.negative_ttl()),
                Some("RFC 2308 §2.2"),
            );
            None
        }
    }
}

/// The types at a node, or that it only stands between others.
fn types(node: Node<'_>) -> String {
    if node.flags().contains(NodeFlags::EMPTY) {
        return "an empty non-terminal".into();
    }
    let types: Vec<String> = node.rrsets().map(|set| set.rtype().to_string()).collect();
    types.join(" ")
}

/// The name that is the RDATA of the first record of a type.
fn first_name(node: Node<'_>, rtype: Type) -> Option<NameBuf> {
    node.rrset(rtype)?.rdatas().next()?.name()
}
