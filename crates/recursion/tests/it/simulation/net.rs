//! The network between the resolver and the servers, on virtual time: messages are lost, duplicated, delayed
//! and reordered; servers fail, come back and lie; off-path attackers send forged replies.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use testkit::answers::Line;
use transport::{Action, Link, Transport};
use wire::edns::{Edns, OptWriter};
use wire::message::{Builder, Compressor, Offset, Owner, Parser, Section};
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type};

use super::zones::{Dice, EVIL, HOSTS, Zones, address};

/// An event of a link on its way to the resolver.
pub(super) enum Coming {
    Message(Vec<u8>),
    Opened,
    Ended(ErrorKind),
}

/// Fault rates, in percent.
#[derive(Clone, Copy, Default)]
pub(super) struct Weather {
    pub(super) lost: usize,
    pub(super) doubled: usize,
    pub(super) late: usize,
    pub(super) forged: usize,
    pub(super) damaged: usize,
}

/// The network.
pub(super) struct Net {
    pub(super) weather: Weather,
    /// Servers that lie now and then.
    pub(super) liars: BTreeSet<usize>,
    /// Servers that are down.
    pub(super) down: BTreeSet<usize>,
    pub(super) links: BTreeMap<Link, (SocketAddr, Transport)>,
    coming: BTreeMap<(Instant, u64), (Link, Coming)>,
    count: u64,
    /// Queries so far.
    pub(super) queries: u64,
}

/// A reply under construction, section by section.
struct Said {
    rcode: Rcode,
    authoritative: bool,
    sections: [Vec<Line>; 3],
}

impl Net {
    pub(super) fn new(weather: Weather, liars: BTreeSet<usize>) -> Net {
        let (links, coming) = (BTreeMap::new(), BTreeMap::new());
        Net { weather, liars, down: BTreeSet::new(), links, coming, count: 0, queries: 0 }
    }

    /// Returns the time of the next event.
    pub(super) fn next(&self) -> Option<Instant> {
        self.coming.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(super) fn take(&mut self) -> Option<(Link, Coming)> {
        let (_, (link, what)) = self.coming.pop_first()?;
        if let Coming::Ended(_) = what {
            self.links.remove(&link);
        }
        Some((link, what))
    }

    fn comes(&mut self, at: Instant, link: Link, what: Coming) {
        self.count += 1;
        self.coming.insert((at, self.count), (link, what));
    }

    /// Drops everything on the way: the resolver has stopped.
    pub(super) fn forget(&mut self) {
        self.links.clear();
        self.coming.clear();
    }

    /// A server fails: its connections end.
    pub(super) fn dies(&mut self, host: usize, now: Instant) {
        self.down.insert(host);
        let with =
            |(to, transport): &(SocketAddr, Transport)| to.ip() == address(host) && transport.is_stream();
        let ended: Vec<Link> = self.links.iter().filter(|(_, l)| with(l)).map(|(link, _)| *link).collect();
        for link in ended {
            self.coming.retain(|_, (other, _)| *other != link);
            self.comes(now, link, Coming::Ended(ErrorKind::ConnectionReset));
        }
    }

    /// Performs an action of the resolver. The error is a violation of an invariant.
    pub(super) fn act(
        &mut self,
        action: Action,
        zones: &Zones,
        dice: &mut Dice,
        now: Instant,
    ) -> Result<(), String> {
        match action {
            Action::Open { link, transport, to, .. } => {
                if self.links.insert(link, (to, transport)).is_some() {
                    return Err(format!("{link:?} is open already"));
                }
                if transport.is_stream() {
                    let host = host_at(to.ip()).filter(|host| !self.down.contains(host));
                    let after = self.delay(dice);
                    match host {
                        Some(_) => self.comes(now + after, link, Coming::Opened),
                        None if dice.percent(50) => {
                            self.comes(now + after, link, Coming::Ended(ErrorKind::ConnectionRefused));
                        }
                        None => {}
                    }
                }
            }
            // No link here has streams.
            Action::Cancel { .. } | Action::Resume { .. } => {}
            Action::Close { link } => {
                if self.links.remove(&link).is_none() {
                    return Err(format!("{link:?} is closed, and not open"));
                }
                self.coming.retain(|_, (other, _)| *other != link);
            }
            Action::Send { link, message } => {
                let Some(&(to, transport)) = self.links.get(&link) else {
                    return Err(format!("a query on {link:?}, which is not open"));
                };
                self.queries += 1;
                self.deliver(link, (to, transport), &message, zones, dice, now);
            }
        }
        Ok(())
    }

    fn delay(&self, dice: &mut Dice) -> Duration {
        let late = dice.percent(self.weather.late);
        Duration::from_micros(if late { dice.below(3_000_000) } else { 1000 + dice.below(20_000) } as u64)
    }

    fn deliver(
        &mut self,
        link: Link,
        (to, transport): (SocketAddr, Transport),
        query: &[u8],
        zones: &Zones,
        dice: &mut Dice,
        now: Instant,
    ) {
        let udp = !transport.is_stream();
        if udp && dice.percent(self.weather.forged) {
            let after = self.delay(dice);
            self.comes(now + after, link, Coming::Message(forged(query, dice)));
        }
        let host = host_at(to.ip()).filter(|host| !self.down.contains(host));
        let Some(host) = host else {
            if udp && dice.percent(30) {
                let after = self.delay(dice);
                self.comes(now + after, link, Coming::Ended(ErrorKind::ConnectionRefused));
            }
            return;
        };
        if udp && dice.percent(self.weather.lost) {
            return;
        }
        let lies = host == HOSTS || self.liars.contains(&host) && dice.percent(50);
        let mut message = reply(host, query, udp, lies, zones, dice);
        if udp && dice.percent(self.weather.damaged) {
            damage(&mut message, dice);
        }
        let times = if udp && dice.percent(self.weather.doubled) { 2 } else { 1 };
        for _ in 0..times {
            let after = self.delay(dice);
            self.comes(now + after, link, Coming::Message(message.clone()));
        }
    }
}

/// Returns the server with an address; the one after the last serves lies only.
fn host_at(ip: IpAddr) -> Option<usize> {
    (0..=HOSTS).find(|host| address(*host) == ip)
}

/// A reply forged without having seen the query: its ID is wrong.
fn forged(query: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut message = query.to_vec();
    let other = 1 + dice.below(0xffff) as u16;
    let [high, low] = other.to_be_bytes();
    message[0] ^= high;
    message[1] ^= low;
    let (_, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    let said = Said {
        rcode: Rcode::NOERROR,
        authoritative: true,
        sections: [vec![evil(question.name.to_buf())], Vec::new(), Vec::new()],
    };
    let mut forged = build(&message, &said);
    forged[..2].copy_from_slice(&message[..2]);
    forged
}

/// Truncates a message or changes its header, but not into a credible different answer.
fn damage(message: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(4) {
        0 => message.truncate(dice.below(message.len())),
        1 => message[3] = message[3] & 0xf0 | *dice.pick(&[1, 2, 4, 5, 9, 15]),
        2 => message[4 + dice.below(2)] ^= 1 << dice.below(8),
        _ => message[2] |= 0x02,
    }
}

fn evil(owner: NameBuf) -> Line {
    Line { owner, rtype: Type::A, ttl: Ttl::from_secs(86_400), rdata: EVIL.octets().to_vec() }
}

fn pointing(owner: NameBuf, rtype: Type, target: &NameBuf) -> Line {
    let rdata = target.as_name().as_wire().to_vec();
    Line { owner, rtype, ttl: Ttl::from_secs(86_400), rdata }
}

fn below(label: &[u8], apex: &NameBuf) -> NameBuf {
    NameBuf::prepend(label, apex.as_name()).expect("short")
}

/// Returns a server's reply.
fn reply(host: usize, query: &[u8], udp: bool, lies: bool, zones: &Zones, dice: &mut Dice) -> Vec<u8> {
    let (_, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    let opt = parser.record().ok();
    let edns = opt.as_ref().and_then(|opt| Edns::parse(query, opt).ok());
    let dnssec_ok = edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
    let refused = Said { rcode: Rcode::REFUSED, authoritative: false, sections: Default::default() };
    let served = zones.hosts.get(host);
    let mut said = match served.and_then(|s| s.answer(question.name, question.qtype, dnssec_ok).ok()) {
        Some(expected) => Said {
            rcode: expected.rcode,
            authoritative: expected.authoritative,
            sections: [expected.answer, expected.authority, expected.additional],
        },
        None => refused,
    };
    if lies {
        lie(&mut said, question.name, zones, dice);
    }
    let mut message = build(query, &said);
    if udp && message.len() > 1232 {
        let short = Said { sections: Default::default(), ..said };
        message = build(query, &short);
        message[2] |= 0x02;
    }
    message
}

/// Replaces true data by false data.
fn lie(said: &mut Said, qname: Name<'_>, zones: &Zones, dice: &mut Dice) {
    let victim = dice.pick(&zones.sites).apex;
    let (www, ns) = (below(b"www", &victim), below(b"ns", &victim));
    let [answer, authority, additional] = &mut said.sections;
    match dice.below(12) {
        // Another zone's servers with false addresses.
        0 => {
            authority.push(pointing(victim, Type::NS, &ns));
            additional.push(evil(ns));
        }
        1 => answer.push(evil(www)),
        2 => additional.push(evil(www)),
        3 => {
            for line in answer.iter_mut().filter(|line| line.rtype == Type::A) {
                line.rdata = EVIL.octets().to_vec();
            }
        }
        // An alias to another zone, with false data there.
        4 => *answer = vec![pointing(qname.to_buf(), Type::CNAME, &www), evil(www)],
        5 => said.sections.iter_mut().for_each(|lines| lines.retain(|line| line.rtype != Type::RRSIG)),
        6 => {
            said.rcode = Rcode::NXDOMAIN;
            answer.clear();
        }
        7 => answer.insert(0, pointing(victim, Type::DNAME, &below(b"evil", &victim))),
        // False addresses of servers that were named.
        8 => additional.iter_mut().for_each(|line| *line = evil(line.owner)),
        // An unsolicited referral, to servers that lie.
        9 => {
            answer.clear();
            said.authoritative = false;
            let cut = dice.pick(&zones.sites).apex;
            *authority = vec![pointing(cut, Type::NS, &below(b"ns", &cut))];
            *additional = vec![evil(below(b"ns", &cut))];
        }
        10 => {
            authority.retain(|line| !matches!(line.rtype, Type::NSEC | Type::NSEC3));
        }
        _ => *answer = vec![evil(qname.to_buf())],
    }
}

fn build(query: &[u8], said: &Said) -> Vec<u8> {
    let (asked, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    let mut header = asked.reply();
    header.set_rcode(said.rcode);
    header.set_authoritative(said.authoritative);
    let (mut buf, mut names) = (vec![0; 65_535], Compressor::large());
    let mut b = Builder::new(&mut buf, 65_535, header, &mut names);
    b.question(question.name, question.qtype, question.qclass).expect("fits");
    b.learn(question.name, Offset::QNAME);
    for (section, lines) in
        [Section::Answer, Section::Authority, Section::Additional].iter().zip(&said.sections)
    {
        for line in lines {
            let owner = Owner::Name(line.owner.as_name());
            b.record(*section, owner, line.rtype, Class::IN, line.ttl, &line.rdata).expect("fits");
        }
    }
    if parser.record().is_ok() {
        OptWriter::begin(&mut b, 1232, 0, false).expect("fits");
    }
    let len = b.finish();
    buf.truncate(len);
    buf
}
