//! Walks from the root servers to the server that answers, referral by referral, with glue if there is some.
//! `resolver` judges each reply, as for the server's own lookups; this file has only the exchanges and their
//! order.
//!
//! The core of `resolver` does not fit the exchanges: it chooses servers at random and by their speed, sends
//! minimised names in mixed case with its own cookies to port 53, and keeps only those records of a reply
//! that an answer needs. A walk sends each server exactly the query of the command line, and prints whole
//! replies.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use resolver::{
    IterateRule, Partition, QueryKey, Referral, ReferralScope, ReplyFault, Scope, ScrubbedAnswer,
};
use wire::message::Header;
use wire::{LowerNameBuf, Name, NameBuf, Rcode, Type};

use super::ask::{self, ReceivedResponse};
use super::server::addresses_in;
use super::steps::{Errand, Steps, WalkStep};
use super::words::Wanted;
use message::{QuerySpec, print};

/// Largest number of queries of one walk, including those for proofs and addresses.
const MAX_QUERIES: u32 = 300;
/// Largest depth of nested lookups of servers' addresses.
const MAX_DEPTH: u8 = 7;
/// Largest number of servers considered per zone, and of addresses per server.
const MAX_SERVERS: usize = 13;
const MAX_ADDRESSES: usize = 6;

/// Why a walk fails.
#[derive(Debug)]
pub enum WalkFault {
    /// The server that was queried for the root servers did not return them.
    NoRoot(SocketAddr, String),
    /// No server of this zone has an answer.
    NoAnswer(Box<NameBuf>),
    /// No server of this zone has a usable address.
    NoAddress(Box<NameBuf>),
    /// It takes too many queries.
    TooMany,
    /// The output cannot be written.
    Output(io::Error),
}

impl fmt::Display for WalkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoot(server, why) => write!(f, "{server} does not say who the root servers are: {why}"),
            Self::NoAnswer(zone) => write!(f, "no server of {zone} has an answer"),
            Self::NoAddress(zone) => write!(f, "no server of {zone} has an address that can be asked"),
            Self::TooMany => write!(f, "the walk takes more than {MAX_QUERIES} queries"),
            Self::Output(e) => write!(f, "cannot write: {}", wording::reason(e)),
        }
    }
}
impl std::error::Error for WalkFault {}

impl From<io::Error> for WalkFault {
    fn from(e: io::Error) -> Self {
        Self::Output(e)
    }
}

/// A zone and its servers, as the parent zone delegates it.
#[derive(Debug, Clone)]
struct Cut {
    zone: NameBuf,
    /// Each server with its addresses, if they are known.
    servers: Vec<(LowerNameBuf, Vec<IpAddr>)>,
}

/// What a walk looks for.
#[derive(Debug, Clone, Copy)]
struct Question {
    name: NameBuf,
    qtype: Type,
}

/// An address to query, with the server's name.
type Candidate = (LowerNameBuf, SocketAddr);

/// The answer that the walk reached.
pub struct Reached {
    /// The response as received.
    pub reply: ReceivedResponse,
    /// The part of it that is used.
    pub answer: ScrubbedAnswer,
}

/// The next step after the reply of a zone's server.
enum Turn {
    Down(Referral),
    Answer(ScrubbedAnswer),
}

/// A walk, with the zones it has passed.
pub struct Walk<'w> {
    wanted: &'w Wanted,
    /// The server that returned the root servers and, if needed, their addresses.
    guide: Option<SocketAddr>,
    /// Whether servers may have loopback addresses: true if the guide has one.
    loopback: bool,
    /// The known zones, the root first.
    cuts: Vec<Cut>,
    /// The servers whose addresses were looked up, with the results.
    looked_up: HashMap<LowerNameBuf, Vec<IpAddr>>,
    left: u32,
}

impl<'w> Walk<'w> {
    /// Finds the root servers: from the server on the command line, or the built-in ones.
    pub fn begin(wanted: &'w Wanted, steps: &mut Steps<'_>) -> Result<Self, WalkFault> {
        let guide = wanted.has_server.then_some(wanted.server);
        let loopback = guide.is_some_and(|guide| guide.ip().is_loopback());
        let (cuts, looked_up) = (Vec::new(), HashMap::new());
        let mut walk = Walk { wanted, guide, loopback, cuts, looked_up, left: MAX_QUERIES };
        let servers = match guide {
            Some(guide) => walk.ask_guide(guide, steps)?,
            None => {
                let known = IterateRule::root().servers.into_iter();
                let known = known.filter_map(|server| Some((server.name?, server.addresses)));
                known
                    .map(|(name, at)| (name.as_name().to_lower(), at.iter().map(SocketAddr::ip).collect()))
                    .collect()
            }
        };
        walk.cuts.push(Cut { zone: NameBuf::ROOT, servers });
        Ok(walk)
    }

    fn ask_guide(
        &mut self,
        guide: SocketAddr,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<(LowerNameBuf, Vec<IpAddr>)>, WalkFault> {
        let root = NameBuf::ROOT;
        let step = WalkStep {
            errand: Errand::Guide,
            zone: root,
            server: guide,
            host: None,
            name: root,
            qtype: Type::NS,
        };
        let reply = match self.exchange(guide, root, Type::NS, true)? {
            Ok(reply) => reply,
            Err(why) => {
                steps.silent(&step, &why)?;
                return Err(WalkFault::NoRoot(guide, why));
            }
        };
        let rcode = print::rcode(&reply.message).unwrap_or(Rcode::FORMERR);
        let named = match resolver::priming(&reply.message, &self.scope(Name::ROOT, Name::ROOT)) {
            Ok(Some(referral)) => Ok(referral.servers),
            Ok(None) => Err(ReplyFault::Rcode(rcode)),
            Err(fault) => Err(fault),
        };
        match named {
            Ok(servers) => {
                steps.answered(&step, &reply)?;
                Ok(servers)
            }
            Err(fault) => {
                steps.useless(&step, &reply, fault)?;
                Err(WalkFault::NoRoot(guide, fault.to_string()))
            }
        }
    }

    /// Walks from the closest known zone to the server that answers. Does not follow aliases.
    pub fn find(
        &mut self,
        steps: &mut Steps<'_>,
        errand: Errand,
        name: NameBuf,
        qtype: Type,
    ) -> Result<Reached, WalkFault> {
        self.find_at(steps, errand, Question { name, qtype }, 0)
    }

    fn find_at(
        &mut self,
        steps: &mut Steps<'_>,
        errand: Errand,
        question: Question,
        depth: u8,
    ) -> Result<Reached, WalkFault> {
        let mut cut = self.closest(question);
        // Each zone is below the previous one.
        loop {
            match self.ask_zone(steps, errand, &cut, question, depth)? {
                (_, Turn::Down(Referral { zone, servers, .. })) => {
                    cut = Cut { zone: zone.into(), servers };
                    self.cuts.push(cut.clone());
                }
                (reply, Turn::Answer(answer)) => return Ok(Reached { reply, answer }),
            }
        }
    }

    /// Returns the closest known zone; for DS a zone above the name, which has them (RFC 4035 §3.1.4.1).
    fn closest(&self, Question { name, qtype }: Question) -> Cut {
        let has = |cut: &&Cut| {
            let zone = cut.zone.as_name();
            zone.is_root() || name.as_name().is_at_or_below(zone) && (qtype != Type::DS || cut.zone != name)
        };
        let closest = self.cuts.iter().filter(has).max_by_key(|cut| cut.zone.as_name().label_count());
        closest.cloned().unwrap_or(Cut { zone: NameBuf::ROOT, servers: Vec::new() })
    }

    /// Queries the servers of a zone until one answers or refers to others.
    fn ask_zone(
        &mut self,
        steps: &mut Steps<'_>,
        errand: Errand,
        cut: &Cut,
        question: Question,
        depth: u8,
    ) -> Result<(ReceivedResponse, Turn), WalkFault> {
        let Question { name, qtype } = question;
        let mut open = self.candidates(&cut.servers);
        let mut without: VecDeque<LowerNameBuf> =
            cut.servers.iter().filter(|(_, at)| at.is_empty()).map(|(host, _)| *host).collect();
        let mut any = false;
        for _ in 0..self.wanted.tries.max(1) {
            let mut silent = VecDeque::new();
            loop {
                let Some((host, server)) = open.pop_front() else {
                    let Some(host) = without.pop_front() else { break };
                    let found = self.look_up(steps, cut, host, depth)?;
                    open = self.candidates(&[(host, found)]);
                    continue;
                };
                any = true;
                let step = WalkStep { errand, zone: cut.zone, server, host: Some(host), name, qtype };
                let reply = match self.exchange(server, name, qtype, false)? {
                    Ok(reply) => reply,
                    Err(why) => {
                        steps.silent(&step, &why)?;
                        // An address without a route will not have one next time.
                        silent.extend(is_routed(server).then_some((host, server)));
                        continue;
                    }
                };
                match self.judge(cut, question, &reply) {
                    Ok(Turn::Down(referral)) => {
                        steps.referred(&step, &reply, &referral)?;
                        return Ok((reply, Turn::Down(referral)));
                    }
                    Ok(turn) => {
                        steps.answered(&step, &reply)?;
                        return Ok((reply, turn));
                    }
                    Err(fault) => steps.useless(&step, &reply, fault)?,
                }
            }
            open = silent;
        }
        let zone = Box::new(cut.zone);
        Err(if any { WalkFault::NoAnswer(zone) } else { WalkFault::NoAddress(zone) })
    }

    /// Returns the addresses to query, the first of each server before the second of any. Omits addresses
    /// without a route, if others remain.
    fn candidates(&self, servers: &[(LowerNameBuf, Vec<IpAddr>)]) -> VecDeque<Candidate> {
        let mut all: Vec<(usize, Candidate)> = Vec::new();
        for (host, addresses) in servers {
            let taken = addresses.iter().filter(|ip| self.wanted.family.takes(**ip));
            all.extend(taken.map(|ip| (*host, SocketAddr::new(*ip, self.wanted.walk_port))).enumerate());
        }
        all.sort_by_key(|(number, _)| *number);
        if all.iter().any(|(_, (_, server))| is_routed(*server)) {
            all.retain(|(_, (_, server))| is_routed(*server));
        }
        all.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// Looks up the addresses of a server without glue, once.
    fn look_up(
        &mut self,
        steps: &mut Steps<'_>,
        cut: &Cut,
        host: LowerNameBuf,
        depth: u8,
    ) -> Result<Vec<IpAddr>, WalkFault> {
        if let Some(known) = self.looked_up.get(&host) {
            return Ok(known.clone());
        }
        // A nested lookup that needs this host finds no address.
        self.looked_up.insert(host, Vec::new());
        let name: NameBuf = host.into();
        let mut found = Vec::new();
        for qtype in [Type::A, Type::AAAA].into_iter().filter(|qtype| self.wanted.family.wants(*qtype)) {
            let message = match (cut.zone.as_name().is_root(), self.guide) {
                (true, Some(guide)) => {
                    self.exchange(guide, name, qtype, true)?.ok().map(|reply| reply.message)
                }
                _ if depth >= MAX_DEPTH => None,
                _ => match self.find_at(steps, Errand::Address, Question { name, qtype }, depth + 1) {
                    Ok(reached) => Some(reached.reply.message),
                    Err(fault @ (WalkFault::TooMany | WalkFault::Output(_))) => return Err(fault),
                    Err(WalkFault::NoRoot(..) | WalkFault::NoAnswer(_) | WalkFault::NoAddress(_)) => None,
                },
            };
            found.extend(message.and_then(|message| addresses_in(&message).ok()).into_iter().flatten());
        }
        found.retain(|ip| !ip.is_unspecified() && !ip.is_multicast() && (self.loopback || !ip.is_loopback()));
        found.truncate(MAX_ADDRESSES);
        self.looked_up.insert(host, found.clone());
        Ok(found)
    }

    /// Queries one server once. The inner error is why there is no reply.
    fn exchange(
        &mut self,
        server: SocketAddr,
        name: NameBuf,
        qtype: Type,
        recursion_desired: bool,
    ) -> Result<Result<ReceivedResponse, String>, WalkFault> {
        self.left = self.left.checked_sub(1).ok_or(WalkFault::TooMany)?;
        let query = QuerySpec { name, qtype, recursion_desired, ..self.wanted.query.clone() };
        let message = match query.message() {
            Ok(message) => message,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        Ok(ask::ask(&Wanted { query, server, tries: 1, ..self.wanted.clone() }, &message))
    }

    fn scope<'n>(&self, zone: Name<'n>, name: Name<'n>) -> ReferralScope<'n> {
        ReferralScope {
            zone,
            name,
            class: self.wanted.query.qclass,
            servers: MAX_SERVERS,
            addresses: MAX_ADDRESSES,
            loopback: self.loopback,
            max_ttl: u32::MAX,
        }
    }

    /// Decides the next step after a reply.
    fn judge(&self, cut: &Cut, question: Question, reply: &ReceivedResponse) -> Result<Turn, ReplyFault> {
        let Question { name, qtype } = question;
        let message = &reply.message;
        let rcode = print::rcode(message).map_err(|_| ReplyFault::Malformed)?;
        let zone = cut.zone.as_name();
        match rcode {
            Rcode::NOERROR => {
                if let Some(referral) = resolver::referral(message, &self.scope(zone, name.as_name()))? {
                    // A server of the parent zone answers for DS itself.
                    let own = qtype == Type::DS && NameBuf::from(referral.zone) == name;
                    return if own { Err(ReplyFault::Lame) } else { Ok(Turn::Down(referral)) };
                }
            }
            Rcode::NXDOMAIN => {}
            rcode => return Err(ReplyFault::Rcode(rcode)),
        }
        let QuerySpec { qclass, dnssec_ok, checking_disabled, .. } = self.wanted.query;
        let inquiry = QueryKey {
            name: name.as_name().to_lower(),
            qtype,
            qclass,
            dnssec_ok,
            checking_disabled,
            partition: Partition::SHARED,
        };
        let scope = Scope {
            domain: zone,
            sent: name.as_name(),
            records_per_set: usize::from(u16::MAX),
            max_ttl: u32::MAX,
            max_negative_ttl: u32::MAX,
            border: None,
        };
        let lame = |fault| if fault == ReplyFault::Referral { ReplyFault::Lame } else { fault };
        let answer = resolver::scrub(message, &inquiry, rcode, &scope).map_err(lame)?;
        let is_positive = Header::of(&answer.message).is_some_and(|header| header.counts()[1] > 0);
        let recursive = Header::of(message).is_some_and(|header| header.recursion_available());
        // As for the server's own lookups: an answer from a cache does not show which server has the zone.
        let lame = !answer.authoritative && (recursive || !is_positive && answer.negative_ttl.is_none());
        if lame { Err(ReplyFault::Lame) } else { Ok(Turn::Answer(answer)) }
    }
}

/// Returns whether this machine has a route to an address. Sends nothing.
fn is_routed(server: SocketAddr) -> bool {
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    UdpSocket::bind(any).and_then(|socket| socket.connect(server)).is_ok()
}
