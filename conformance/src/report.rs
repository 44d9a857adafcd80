//! Counts and prints results: agreement, explained differences, and each unexplained difference with the
//! command line that reproduces it.

use crate::answer;
use crate::compare::{self, Case, Difference, Facet};
use crate::explained;
use crate::secondaries::Origin;
use crate::servers::Kind;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Counts of one subject.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Queries compared.
    pub compared: usize,
    /// Queries in which the subject agrees in everything.
    pub agreed: usize,
    /// Differences per rule.
    pub explained: BTreeMap<&'static str, usize>,
    /// Queries with at least one unexplained difference.
    pub unexplained: usize,
    /// Unexplained differences per facet and group of servers on the other side.
    pub kinds: BTreeMap<(Facet, Vec<Kind>), usize>,
}

impl Tally {
    /// Adds one case. Returns its unexplained differences.
    pub(crate) fn add(&mut self, case: &Case<'_>, subject: Kind) -> Vec<Difference> {
        if !case.replies.iter().any(|(k, _)| *k == subject) {
            return Vec::new();
        }
        self.compared += 1;
        let differences = compare::differences(case, subject);
        if differences.is_empty() {
            self.agreed += 1;
        }
        let mut rest = Vec::new();
        for difference in differences {
            match explained::explain(case, subject, &difference) {
                Some(rule) => *self.explained.entry(rule.id).or_default() += 1,
                None => {
                    *self.kinds.entry((difference.facet, difference.against.clone())).or_default() += 1;
                    rest.push(difference);
                }
            }
        }
        if !rest.is_empty() {
            self.unexplained += 1;
        }
        rest
    }

    /// Prints the counts; with `reasons`, also the reason of each rule.
    pub(crate) fn print(&self, subject: Kind, origin: Origin, reasons: bool) {
        println!(
            "{}{origin}: {} queries compared, {} agree in everything, {} unexplained",
            subject.label(),
            self.compared,
            self.agreed,
            self.unexplained
        );
        for (id, count) in &self.explained {
            println!("  explained {count:>8}  {id}");
            if let Some(rule) = explained::all().find(|r| r.id == *id).filter(|_| reasons) {
                println!("                      {}", rule.why);
            }
        }
        for ((facet, against), count) in &self.kinds {
            let against: Vec<_> = against.iter().map(|k| k.label()).collect();
            println!("  UNEXPLAINED {count:>6}  {facet:?} against {}", against.join("+"));
        }
    }
}

/// A server's reply, for printing.
#[derive(Debug)]
pub(crate) struct Said {
    /// Label of the server, with the pass where that matters.
    pub who: String,
    /// Address of the server.
    pub address: SocketAddr,
    /// The bytes; `None` for no reply.
    pub wire: Option<Vec<u8>>,
}

/// Prints one case in full: the command line that reproduces it, and the replies of all servers.
pub(crate) fn show(
    number: usize,
    case: &Case<'_>,
    (subject, origin): (Kind, Origin),
    differences: &[Difference],
    wires: &[Said],
) {
    let zone = case.world.zone_of(&case.query.name).map_or_else(|| "none".to_owned(), |z| z.name.to_string());
    println!("\n#{number} world {} zone {zone} subject {}{origin}", case.world.name, subject.label());
    for difference in differences {
        let against: Vec<_> = difference.against.iter().map(|k| k.label()).collect();
        println!("  differs in {:?} from {}", difference.facet, against.join(", "));
    }
    for Said { who, address, wire } in wires {
        match case.message {
            None => {
                println!("  dig @{} -p {} {}   # {who}", address.ip(), address.port(), case.query.to_dig(),)
            }
            Some(message) => {
                println!("  message '{}' by {:?}   # {who}", message.name, case.query.transport)
            }
        }
        match wire {
            None => println!("    silence"),
            Some(wire) => print!("{}", answer::render(wire)),
        }
    }
}
